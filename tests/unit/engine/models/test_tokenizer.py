import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from engine.errors import ModelError
from engine.models.gguf_file import open_gguf
from engine.models.tokenizer import build_tokenizer, check_tokenizer
from tests.unit.engine.models.conftest import TOKENS, MakeGguf


@pytest.mark.parametrize("preparation", ["smollm", "qwen2"])
def test_digits_are_split_despite_merges(make_gguf: MakeGguf, preparation: str) -> None:
    tokenizer = build_tokenizer(open_gguf(make_gguf(preparation=preparation)))

    check_tokenizer(tokenizer)
    assert tokenizer.encode("a12").tokens == ["a", "1", "2"]


@pytest.mark.parametrize("preparation", ["smollm", "qwen2"])
def test_special_tokens_keep_their_ids(make_gguf: MakeGguf, preparation: str) -> None:
    tokenizer = build_tokenizer(open_gguf(make_gguf(preparation=preparation)))

    encoded = tokenizer.encode("<|im_start|>x<tool><|im_end|>")

    assert encoded.ids == [1, TOKENS.index("x"), TOKENS.index("<tool>"), 2]
    assert tokenizer.decode(encoded.ids) == "x<tool>"


def test_an_unknown_preparation_is_rejected(make_gguf: MakeGguf) -> None:
    source = open_gguf(make_gguf(preparation="mystery"))

    with pytest.raises(ModelError, match="unknown tokenizer gpt2/mystery"):
        build_tokenizer(source)


def byte_level(*, decoder: bool) -> Tokenizer:
    tokenizer = Tokenizer(
        models.BPE(vocab={t: i for i, t in enumerate(TOKENS)}, merges=[("1", "2")])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if decoder:
        tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def test_check_catches_joined_digits() -> None:
    with pytest.raises(ModelError, match="digits are not split"):
        check_tokenizer(byte_level(decoder=True))


def test_check_catches_text_that_is_not_restored() -> None:
    tokenizer = byte_level(decoder=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ])  # fmt: skip

    with pytest.raises(ModelError, match="came back as"):
        check_tokenizer(tokenizer)
