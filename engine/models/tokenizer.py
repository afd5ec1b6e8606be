"""Builds the tokenizer of a GGUF file from its vocabulary and merges, and verifies it.

The GGUF reader of transformers 5.17-5.19 drops the step that splits digits, so numbers would be
encoded as tokens that the model never saw. So we define the steps ourselves.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from engine.errors import ModelError
from engine.models.gguf_file import GgufFile

# Token types of the GGUF vocabulary. Source: GGUF specification, `tokenizer.ggml.token_type`.
_CONTROL = 3
_USER_DEFINED = 4

# Source: tokenizer.json of Qwen/Qwen2.5-1.5B, `pre_tokenizer`.
_QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_ROUND_TRIPS = (
    "The quick brown fox jumps over the lazy dog.",
    "def area(radius: float) -> float:\n    return 3.14159 * radius ** 2\n",
    "Zürich, naïve café, 東京 and 🙂 cost 1,234.50 €\r\n\ttabs  and   spaces",
)


def _prepare_smollm(tokenizer: Tokenizer) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])  # fmt: skip


def _prepare_qwen2(tokenizer: Tokenizer) -> None:
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(_QWEN2_SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip


# `tokenizer.ggml.pre` -> the text processing before byte-pair encoding.
_PREPARATIONS: Mapping[str, Callable[[Tokenizer], None]] = MappingProxyType({
    "smollm": _prepare_smollm,
    "qwen2": _prepare_qwen2,
})  # fmt: skip


def build_tokenizer(source: GgufFile) -> Tokenizer:
    """Return the tokenizer that the model was trained with.

    Raises:
        ModelError: This type of tokenizer is not supported.
    """
    kind, preparation = source.text("tokenizer.ggml.model"), source.text("tokenizer.ggml.pre")
    if kind != "gpt2" or preparation not in _PREPARATIONS:
        raise ModelError(f"{source.path.name}: unknown tokenizer {kind}/{preparation}")
    texts = [str(text) for text in source.items("tokenizer.ggml.tokens")]
    merges = [_split_merge(str(merge)) for merge in source.items("tokenizer.ggml.merges")]
    vocabulary = {text: token_id for token_id, text in enumerate(texts)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    _PREPARATIONS[preparation](tokenizer)
    tokenizer.decoder = decoders.ByteLevel()
    types = source.items("tokenizer.ggml.token_type")
    tokenizer.add_special_tokens(_added(texts, types, wanted=_CONTROL))
    tokenizer.add_tokens(_added(texts, types, wanted=_USER_DEFINED))
    return tokenizer


def check_tokenizer(tokenizer: Tokenizer) -> None:
    """Verify that digits are separate tokens and that text survives encoding.

    Raises:
        ModelError: A check failed; the conversion must not be used.
    """
    digits = tokenizer.encode("1234567890", add_special_tokens=False)
    if digits.tokens != list("1234567890"):
        raise ModelError(f"tokenizer: digits are not split: {digits.tokens}")
    for text in _ROUND_TRIPS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if (back := tokenizer.decode(ids, skip_special_tokens=False)) != text:
            raise ModelError(f"tokenizer: {text!r} came back as {back!r}")


def _split_merge(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    return left, right


def _added(texts: list[str], types: list[int], *, wanted: int) -> list[AddedToken]:
    return [
        AddedToken(text, special=wanted == _CONTROL, normalized=False)
        for text, kind in zip(texts, types, strict=True)
        if kind == wanted
    ]
