"""Checkpoint layouts of Medusa's heads: FasterDecoding's, who wrote them, and vLLM's.

In both, a position K has layers N and an output layer. FasterDecoding names their weights
`K.N.linear.weight` and `K.M.weight`, where M is the number of layers; vLLM
`blocks.K.layers.N.weight` and `lm_heads.K.weight`, or as FasterDecoding does.
"""

from collections.abc import Sequence
from itertools import count, product, takewhile
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from engine.errors import HeadFileError
from engine.heads.config import HeadConfig
from engine.heads.layout import VOCABULARY, configure, validate
from engine.heads.stored import StoredWeights

_PREFIX = "medusa_heads."
_FILES: Sequence[str] = ("medusa_lm_head.safetensors", "medusa_lm_head.pt", "*.safetensors")
_TOKENS = "token_map"

_Size = Annotated[int, Field(ge=1)]


class _Drafted(NamedTuple):
    """The tokens of a draft vocabulary.

    Attributes:
        tokens: Target ids, rising.
        order: Where in the file's list each of them stands.
    """

    tokens: Tensor
    order: Tensor


class _Names(NamedTuple):
    """Formats of the names of a layer, without `.weight` or `.bias`, and of an output layer."""

    layer: str
    output: str


_NUMBERED = _Names("{head}.{layer}.linear", "{head}.{layers}.weight")
_SPELT_OUT = _Names("blocks.{head}.layers.{layer}", "lm_heads.{head}.weight")


class _FasterDecodingConfig(BaseModel):
    """The keys of config.json that describe the weights; the sizes are those of the weights."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    medusa_num_heads: _Size
    medusa_num_layers: _Size = 1


class FasterDecodingMedusa:
    """A folder in this layout; see `Layout`. The file may hold a whole model's config.json.

    Heads are counted in the weights: published files have five, and a config.json that says two.
    """

    prefix = _PREFIX
    files = _FILES

    def __init__(self, path: Path, content: bytes) -> None:
        published = validate(_FasterDecodingConfig, path, content)
        layers = published.medusa_num_layers
        with StoredWeights(path.parent, prefix=self.prefix, files=self.files) as stored:
            outputs = (_NUMBERED.output.format(head=head, layers=layers) for head in count())
            first = next(outputs)
            sizes = stored.shape(first)
            heads = 1 + sum(1 for _ in takewhile(stored.__contains__, outputs))
        if heads < published.medusa_num_heads:
            raise HeadFileError(
                f"{path}: found medusa_num_heads {published.medusa_num_heads}, expected at most "
                f"{heads}: there are no weights of more"
            )
        if len(sizes) != 2:
            raise HeadFileError(
                f"{path.parent}: {first}: found shape {sizes}, expected (vocabulary, hidden size)"
            )
        vocab_size, hidden_size = sizes
        self.config = _configure(
            path, layers=layers, positions=heads, hidden_size=hidden_size, vocab_size=vocab_size
        )

    def read(self, stored: StoredWeights) -> dict[str, Tensor]:
        """See `Layout.read`."""
        config = self.config
        tensors = _read_layers(stored, _NUMBERED, config)
        for head in range(config.positions):
            tensors[f"outputs.{head}.weight"] = stored.take(
                _name_output(_NUMBERED, config, head), (config.vocab_size, config.hidden_size)
            )
        return tensors


class _VllmConfig(BaseModel):
    """The keys of config.json that describe the weights; FasterDecoding's names count too."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    hidden_size: _Size
    vocab_size: _Size
    num_heads: _Size
    num_hidden_layers: _Size = 1
    truncated_vocab_size: _Size | None = None
    logit_scale: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    original_lm_head: bool = False

    @model_validator(mode="before")
    @classmethod
    def _rename(cls, document: Any) -> Any:
        if not isinstance(document, dict):
            return document
        names = {"medusa_num_heads": "num_heads", "medusa_num_layers": "num_hidden_layers"}
        return {names.get(key, key): value for key, value in document.items()}


class VllmMedusa:
    """A folder in this layout; see `Layout`.

    With `original_lm_head` the target's own output layer is read, not the copy in the file.
    """

    prefix = _PREFIX
    files = _FILES

    def __init__(self, path: Path, content: bytes) -> None:
        published = validate(_VllmConfig, path, content)
        if published.original_lm_head and published.logit_scale != 1:
            raise HeadFileError(
                f"{path}: found original_lm_head with logit_scale {published.logit_scale}, "
                "expected 1: the target's output layer is used as it is"
            )
        self._logit_scale = published.logit_scale
        size = published.truncated_vocab_size
        self.config = _configure(
            path,
            hidden_size=published.hidden_size,
            vocab_size=published.vocab_size,
            positions=published.num_heads,
            layers=published.num_hidden_layers,
            draft_vocab_size=None if size == published.vocab_size else size,
            share_output=published.original_lm_head,
        )

    def read(self, stored: StoredWeights) -> dict[str, Tensor]:
        """See `Layout.read`."""
        config = self.config
        names = _NUMBERED if "0.0.linear.weight" in stored else _SPELT_OUT
        outputs = [_name_output(names, config, head) for head in range(config.positions)]
        tensors = _read_layers(stored, names, config)
        drafted = None
        if config.draft_vocab_size is not None:
            drafted = self._read_tokens(stored, config.draft_vocab_size)
            tensors[VOCABULARY] = drafted.tokens
        if config.share_output:
            for name in ("lm_head.weight", *outputs):
                if name in stored:
                    self._read_rows(stored, name, drafted)
            return tensors
        for head, name in enumerate(outputs):
            rows = self._read_rows(stored, name, drafted)
            tensors[f"outputs.{head}.weight"] = rows * self._logit_scale
        return tensors

    def _read_tokens(self, stored: StoredWeights, size: int) -> _Drafted:
        tokens, order = stored.take_integers(_TOKENS, (size,)).sort()
        if int(tokens[0]) < 0 or int(tokens[-1]) >= self.config.vocab_size:
            raise HeadFileError(
                f"{stored.folder}: {_TOKENS}: found {int(tokens[0])} to {int(tokens[-1])}, "
                f"expected 0 to {self.config.vocab_size - 1}"
            )
        if bool((tokens[1:] == tokens[:-1]).any()):
            raise HeadFileError(f"{stored.folder}: {_TOKENS}: found a token twice")
        return _Drafted(tokens, order)

    def _read_rows(self, stored: StoredWeights, name: str, drafted: _Drafted | None) -> Tensor:
        """Return the rows of the drafted tokens; a file may have those of all tokens."""
        whole = (self.config.vocab_size, self.config.hidden_size)
        if drafted is None:
            return stored.take(name, whole)
        if stored.shape(name) == whole:
            return stored.take(name, whole)[drafted.tokens]
        return stored.take(name, (len(drafted.order), self.config.hidden_size))[drafted.order]


def _configure(path: Path, *, layers: int, **fields: object) -> HeadConfig:
    return configure(
        path,
        kind="medusa",
        inner_size=fields["hidden_size"],
        residual_layers=layers,
        tie_positions=False,
        scale_input=False,
        **fields,
    )


def _name_output(names: _Names, config: HeadConfig, head: int) -> str:
    return names.output.format(head=head, layers=config.residual_layers)


def _read_layers(stored: StoredWeights, names: _Names, config: HeadConfig) -> dict[str, Tensor]:
    """Return the residual layers. Biases that are missing are zero."""
    width = config.hidden_size
    tensors = {}
    for head, layer in product(range(config.positions), range(config.residual_layers)):
        ours, theirs = f"cells.{head}.layers.{layer}", names.layer.format(head=head, layer=layer)
        weight = stored.take(f"{theirs}.weight", (width, width))
        bias = f"{theirs}.bias"
        tensors[f"{ours}.linear.weight"] = weight
        tensors[f"{ours}.bias"] = (
            stored.take(bias, (width,)) if bias in stored else weight.new_zeros(width)
        )
    return tensors
