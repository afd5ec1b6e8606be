"""What is measured: the model's shape, rows, contexts and rounds."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.kernels import DecoderSizes


@dataclass(frozen=True, slots=True)
class Shape:
    """A Llama-shaped model.

    Attributes:
        vocabulary: Rows of the embeddings, and outputs of the last product.
    """

    sizes: DecoderSizes
    layers: int
    vocabulary: int

    @property
    def products(self) -> Sequence[tuple[int, int]]:
        """Shape (out, in) of the four products of each layer, then of the last one."""
        sizes = self.sizes
        queries, keys = sizes.heads * sizes.dim, sizes.kv_heads * sizes.dim
        layer = (
            (queries + 2 * keys, sizes.hidden),
            (sizes.hidden, queries),
            (2 * sizes.intermediate, sizes.hidden),
            (sizes.hidden, sizes.intermediate),
        )
        return (*layer * self.layers, (self.vocabulary, sizes.hidden))

    @property
    def weights(self) -> int:
        """Numbers in all products."""
        return sum(out * inputs for out, inputs in self.products)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    Attributes:
        rows: Tokens of a step, all of one request.
        contexts: Tokens before them in the cache.
        clients: Requests at once of the step through HTTP.
        seconds: A part is called again until so much time has passed; its figure in a round is the
            median of these calls.
    """

    rows: Sequence[int]
    contexts: Sequence[int]
    clients: Sequence[int]
    rounds: int
    seconds: float


# Its config.json.
SMOLLM2_135M = Shape(
    DecoderSizes(
        hidden=576, intermediate=1536, heads=9, kv_heads=3, dim=64, scale=64**-0.5, epsilon=1e-5
    ),
    layers=30,
    vocabulary=49_152,
)

FULL = Plan(
    rows=(1, 2, 4, 8, 16, 32, 64, 512),
    contexts=(300, 4_000),
    clients=(1, 2, 4, 8, 16),
    rounds=7,
    seconds=0.1,
)
"""Some 8 minutes for two kernels on two cores with AVX2."""
QUICK = Plan(rows=(1, 8, 64), contexts=(300,), clients=(1, 8), rounds=3, seconds=0.1)
