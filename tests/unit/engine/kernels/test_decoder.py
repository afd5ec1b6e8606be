"""All layers in one call, against the same layers written with torch."""

import itertools
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from engine.kernels import (
    Decoder,
    DecoderLayer,
    DecoderSizes,
    Linear,
    PackedLinear,
    PagedAttention,
    StepRequests,
    linear_kernels,
)

DTYPES = [torch.float32, torch.bfloat16]
KERNELS = [(dtype, kernel) for dtype in DTYPES for kernel in linear_kernels(dtype)]
FAMILIES = {
    "llama": {},
    "biases": {"biases": ("qkv", "out", "gate_up", "down")},
    "qwen2": {"biases": ("qkv",)},
    "qwen3": {"has_head_norms": True},
}
VOCABULARY, POSITIONS, BLOCK = 50, 700, 32

pytestmark = pytest.mark.skipif(
    not KERNELS, reason="needs a processor with AVX2 and FMA, or with AVX-512"
)


@dataclass
class Model:
    """A small random model; `forward` is the reference."""

    dtype: torch.dtype
    kernel: str | None = None
    biases: tuple[str, ...] = ()
    has_head_norms: bool = False
    layers: int = 3
    sizes: DecoderSizes = field(
        default_factory=lambda: DecoderSizes(48, 80, 6, 2, 32, 32**-0.5, 1e-5)
    )

    def __post_init__(self) -> None:
        self.random = torch.Generator().manual_seed(5)
        sizes = self.sizes
        queries, keys = sizes.heads * sizes.dim, sizes.kv_heads * sizes.dim
        shapes = {
            "qkv": (queries + 2 * keys, sizes.hidden),
            "out": (sizes.hidden, queries),
            "gate_up": (2 * sizes.intermediate, sizes.hidden),
            "down": (sizes.hidden, sizes.intermediate),
        }
        self.weights = [
            {name: self.draw(*shape, scale=shape[1] ** -0.5) for name, shape in shapes.items()}
            for _ in range(self.layers)
        ]
        self.bias = [
            {name: self.draw(shapes[name][0]) for name in self.biases} for _ in self.weights
        ]
        self.norms = [
            [1 + self.draw(width, scale=0.2) for width in (sizes.hidden,) * 2 + (sizes.dim,) * 2]
            for _ in self.weights
        ]
        self.embeddings = self.draw(VOCABULARY, sizes.hidden)
        self.norm = 1 + self.draw(sizes.hidden, scale=0.2)
        frequencies = 100.0 ** (-torch.arange(0, sizes.dim, 2) / sizes.dim)
        turns = torch.arange(POSITIONS)[:, None] * frequencies
        self.angles = torch.cat([turns.cos(), turns.sin()], dim=-1).to(self.dtype)

    def draw(self, *shape: int, scale: float = 1.0) -> Tensor:
        return (torch.randn(*shape, generator=self.random) * scale).to(self.dtype)

    def decoder(self) -> Decoder:
        return Decoder(
            self.sizes,
            [self.layer(index) for index in range(self.layers)],
            embeddings=self.embeddings,
            angles=self.angles,
            norm=self.norm,
        )

    def layer(self, index: int) -> DecoderLayer:
        products = {
            name: Linear(PackedLinear(weight, self.kernel), self.bias[index].get(name))
            for name, weight in self.weights[index].items()
        }
        norms = self.norms[index]
        heads = norms[2:] if self.has_head_norms else [None, None]
        return DecoderLayer(**products, attention_norm=norms[0], mlp_norm=norms[1],
                            query_norm=heads[0], key_norm=heads[1])  # fmt: skip

    def forward(self, ids: Tensor) -> list[Tensor]:
        """Compute one request; the residual streams before each layer and the last states."""
        residual, streams = self.embeddings[ids], []
        more = torch.zeros_like(residual)
        for index in range(self.layers):
            normed, residual = self.add(residual, more, self.norms[index][0])
            streams.append(residual)
            mixed = self.attend(index, normed)
            more = self.product(index, "out", mixed)
            normed, residual = self.add(residual, more, self.norms[index][1])
            gates, values = self.product(index, "gate_up", normed).chunk(2, dim=-1)
            more = self.product(index, "down", functional.silu(gates) * values)
        last, residual = self.add(residual, more, self.norm)
        return [*streams, residual, last]

    def attend(self, index: int, normed: Tensor) -> Tensor:
        sizes, count = self.sizes, normed.shape[0]
        heads = self.product(index, "qkv", normed).view(count, -1, sizes.dim)
        queries, keys, values = heads.split([sizes.heads, sizes.kv_heads, sizes.kv_heads], dim=1)
        if self.has_head_norms:
            queries = self.scale(queries, self.norms[index][2])
            keys = self.scale(keys, self.norms[index][3])
        queries, keys = self.rotate(queries), self.rotate(keys)
        queries, keys, values = (each.transpose(0, 1).double() for each in (queries, keys, values))
        found = functional.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, enable_gqa=True
        )
        return found.transpose(0, 1).reshape(count, -1).to(self.dtype)

    def rotate(self, heads: Tensor) -> Tensor:
        angles = self.angles[: heads.shape[0], None].float()
        cosines, sines = angles.chunk(2, dim=-1)
        first, second = heads.float().chunk(2, dim=-1)
        turned = (first * cosines - second * sines, second * cosines + first * sines)
        return torch.cat(turned, dim=-1).to(self.dtype)

    def product(self, index: int, name: str, rows: Tensor) -> Tensor:
        bias = self.bias[index].get(name)
        found = rows.double() @ self.weights[index][name].double().T
        return (found if bias is None else found + bias.double()).to(self.dtype)

    def scale(self, rows: Tensor, weight: Tensor) -> Tensor:
        numbers = rows.float()
        factor = (numbers.pow(2).mean(-1, keepdim=True) + self.sizes.epsilon).rsqrt()
        return (numbers * factor).to(self.dtype) * weight

    def add(self, residual: Tensor, more: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        numbers = residual.float() + more.float()
        factor = (numbers.pow(2).mean(-1, keepdim=True) + self.sizes.epsilon).rsqrt()
        return (numbers * factor).to(self.dtype) * weight, numbers.to(self.dtype)


class Cached:
    """A decoder with a cache, and requests whose tokens are computed in steps of any shape."""

    def __init__(self, model: Model, lengths: list[int]) -> None:
        sizes = model.sizes
        random = torch.Generator().manual_seed(9)
        counts = [-(-length // BLOCK) for length in lengths]
        order = torch.randperm(sum(counts), generator=random).split(counts)
        self.table = torch.zeros(len(lengths), max(counts), dtype=torch.int32)
        for row, blocks in enumerate(order):
            self.table[row, : len(blocks)] = blocks
        self.ids = [torch.randint(VOCABULARY, (length,), generator=random) for length in lengths]
        shape = (sum(counts), sizes.kv_heads, 2 * BLOCK, sizes.dim)
        self.caches = [torch.full(shape, float("nan"), dtype=model.dtype) for _ in model.weights]
        self.decoder = model.decoder()
        self.decoder.bind(
            [
                PagedAttention(*cache.chunk(2, dim=2), heads=sizes.heads, scale=sizes.scale)
                for cache in self.caches
            ]
        )
        self.done = [0] * len(lengths)

    def step(
        self, parts: dict[int, int], taps: tuple[int, ...] = ()
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Compute the next so many tokens of some requests; the states of each, and the taps."""
        ids, positions, slots = [], [], []
        for request, count in parts.items():
            at = torch.arange(self.done[request], self.done[request] + count)
            ids.append(self.ids[request][at])
            positions.append(at)
            slots.append(self.table[request, at // BLOCK].long() * BLOCK + at % BLOCK)
            self.done[request] += count
        starts = torch.tensor([0, *itertools.accumulate(parts.values())], dtype=torch.int32)
        lengths = torch.tensor([self.done[request] for request in parts], dtype=torch.int32)
        requests = StepRequests(starts, lengths, self.table[list(parts)].contiguous())
        states, streams = self.decoder(
            torch.cat(ids), torch.cat(positions), torch.cat(slots), requests, taps
        )
        return list(states.split(list(parts.values()))), streams


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
def test_states_match_the_modules(dtype: torch.dtype, kernel: str, family: str) -> None:
    model = Model(dtype, kernel, **FAMILIES[family])  # type: ignore[arg-type]
    cached = Cached(model, [70])

    (states,), streams = cached.step({0: 70}, taps=(0, 1, 2, 3))

    # Of the greatest number: sums of other orders, and roundings that fall otherwise.
    tolerance = 1e-5 if dtype is torch.float32 else 0.03
    found = [*streams, states]
    for each, expected in zip(found, model.forward(cached.ids[0]), strict=True):
        assert float((each - expected).abs().max()) <= tolerance * float(expected.abs().max())
    assert torch.equal(streams[0], model.embeddings[cached.ids[0]])


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
def test_states_do_not_depend_on_the_step(dtype: torch.dtype, kernel: str, threads: int) -> None:
    """Bit-identical for a whole prompt, its parts, single tokens and other requests beside it."""
    model = Model(dtype, kernel, biases=("qkv",), has_head_norms=True)
    before = torch.get_num_threads()
    (expected,), _ = Cached(model, [300]).step({0: 300})
    torch.set_num_threads(threads)
    try:
        cached = Cached(model, [300, 90, 640])
        cached.ids[0] = Cached(model, [300]).ids[0]
        parts = [{0: 100, 2: 513}, {1: 40, 0: 97}, {0: 96, 2: 1}]
        parts += [{0: 1}, {0: 2, 1: 3}, {2: 16, 0: 1}, {0: 1}, {1: 1, 0: 1, 2: 1}, {0: 1}]
        found = []
        for part in parts:
            states, _ = cached.step(part)
            found.append(states[list(part).index(0)])
    finally:
        torch.set_num_threads(before)

    assert torch.equal(torch.cat(found), expected)


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
def test_every_number_of_rows_gives_the_same(dtype: torch.dtype, kernel: str) -> None:
    model = Model(dtype, kernel)
    (expected,), _ = Cached(model, [210]).step({0: 210})

    for rows in (*range(1, 34), 95, 96, 97, 200):
        (found,), _ = Cached(model, [210]).step({0: rows})
        assert torch.equal(found, expected[:rows]), rows


@pytest.mark.parametrize("dtype", DTYPES)
def test_embeddings_can_stand_for_ids(dtype: torch.dtype) -> None:
    model = Model(dtype)
    decoder, ids = model.decoder(), torch.arange(9)

    expected, _ = decoder(ids, torch.arange(9))
    found, _ = decoder(model.embeddings[ids], torch.arange(9))

    assert torch.equal(found, expected)
    assert bool(found.isfinite().all())


def test_tokens_after_the_requests_are_padding() -> None:
    cached = Cached(Model(torch.float32), [40])
    requests = StepRequests(
        torch.tensor([0, 3], dtype=torch.int32), torch.tensor([3], dtype=torch.int32), cached.table
    )
    slots = cached.table[0, 0].long() * BLOCK + torch.arange(3)

    found, _ = cached.decoder(cached.ids[0][:5], torch.arange(5), slots, requests)

    (expected,), _ = Cached(Model(torch.float32), [40]).step({0: 3})
    assert torch.equal(found[:3], expected)
    assert bool(found.isfinite().all())


def test_a_negative_slot_writes_nothing() -> None:
    cached = Cached(Model(torch.float32), [40])
    before = [cache.clone() for cache in cached.caches]
    requests = StepRequests(
        torch.tensor([0, 2], dtype=torch.int32), torch.tensor([2], dtype=torch.int32), cached.table
    )

    cached.decoder(cached.ids[0][:2], torch.arange(2), torch.tensor([-1, -1]), requests)

    for cache, old in zip(cached.caches, before, strict=True):
        assert torch.equal(cache.nan_to_num(7.0), old.nan_to_num(7.0))


@pytest.mark.parametrize(
    ("ids", "positions", "slots", "message"),
    [
        ([0, VOCABULARY], [0, 1], [0, 1], "token id"),
        ([0, -1], [0, 1], [0, 1], "token id"),
        ([0, 1], [0, POSITIONS], [0, 1], "position"),
        ([0, 1], [-1, 1], [0, 1], "position"),
        ([0, 1], [0, 1], [0, 2 * BLOCK], "slot"),
    ],
)
def test_what_is_out_of_range_is_refused(
    ids: list[int], positions: list[int], slots: list[int], message: str
) -> None:
    cached = Cached(Model(torch.float32), [40])
    requests = StepRequests(
        torch.tensor([0, 2], dtype=torch.int32), torch.tensor([2], dtype=torch.int32), cached.table
    )

    with pytest.raises(IndexError, match=message):
        cached.decoder(torch.tensor(ids), torch.tensor(positions), torch.tensor(slots), requests)

    assert bool(cached.caches[0].isnan().all())


def test_wrong_shapes_are_refused() -> None:
    model = Model(torch.float32)
    decoder, requests = model.decoder(), Cached(model, [40])

    with pytest.raises(ValueError, match="positions: got"):
        decoder(torch.arange(3), torch.arange(2))
    with pytest.raises(ValueError, match="tokens: got"):
        decoder(torch.zeros(3, 47), torch.arange(3))
    with pytest.raises(ValueError, match="a cache for each layer"):
        decoder.bind([])
    with pytest.raises(ValueError, match="angles: got"):
        Decoder(model.sizes, [model.layer(0)], embeddings=model.embeddings,
                angles=model.angles[:, :30], norm=model.norm)  # fmt: skip
    model.sizes = replace(model.sizes, intermediate=81)
    with pytest.raises(ValueError, match="no kernel supports"):
        model.decoder()
    with pytest.raises(ValueError, match="slots: requests need them"):
        requests.decoder(torch.arange(1), torch.arange(1), None, StepRequests(
            torch.tensor([0, 1], dtype=torch.int32), torch.tensor([1], dtype=torch.int32),
            requests.table))  # fmt: skip
