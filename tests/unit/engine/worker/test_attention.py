"""Whose attention a layer takes; what ours computes is tests/unit/engine/kernels."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.kernels import attention_kernels

needs_kernel = pytest.mark.skipif(
    not attention_kernels(torch.float32), reason="needs a processor with AVX2 and FMA, or AVX-512"
)

HEADS, KV_HEADS, DIM, BLOCK = 6, 2, 32, 32


@pytest.fixture(scope="module", autouse=True)
def vllm() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what vllm and torch do while they are imported is theirs
        import engine.worker.attention  # noqa: F401


@pytest.fixture
def patched() -> Iterator[Any]:
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl

    from engine.worker.attention import attend_with_ours

    before = CPUAttentionBackendImpl.forward
    attend_with_ours()
    yield CPUAttentionBackendImpl
    CPUAttentionBackendImpl.forward = before


def impl_of(owner: type, **changes: Any) -> Any:
    """A layer's implementation as vLLM makes it for a plain decoder."""
    from vllm.v1.attention.backend import AttentionType

    impl: Any = object.__new__(owner)
    usual = {
        "num_heads": HEADS,
        "head_size": DIM,
        "scale": DIM**-0.5,
        "num_kv_heads": KV_HEADS,
        "alibi_slopes": None,
        "sliding_window": -1,
        "kv_cache_dtype": "auto",
        "logits_soft_cap": 0,
        "is_fp8_kv_cache": False,
        "attn_type": AttentionType.DECODER,
        "sinks": None,
        "use_zentorch_sdpa": False,
    }
    impl.__dict__.update(usual | changes)
    return impl


LAYER = SimpleNamespace(isa="vec", _k_scale_float=1.0, _v_scale_float=1.0)


@dataclass
class Metadata:
    """The fields of vLLM's that attention reads."""

    num_actual_tokens: int
    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    scheduler_metadata: torch.Tensor | None
    causal: bool = True
    dynamic_causal: torch.Tensor | None = None


class Step:
    """Two requests, one of which has five queries, in vLLM's own cache."""

    def __init__(self, impl: Any, dtype: torch.dtype) -> None:
        from vllm import _custom_ops as ops

        lengths, queries = (45, 70), (5, 1)
        self.cache = torch.zeros(6, KV_HEADS, BLOCK, 2 * DIM, dtype=dtype)
        table = torch.tensor([[3, 1, 0], [5, 0, 2]], dtype=torch.int32)
        for row, length in enumerate(lengths):
            at = torch.arange(length)
            slots = table[row].long()[at // BLOCK] * BLOCK + at % BLOCK
            both = torch.randn(2, length, KV_HEADS, DIM).to(dtype)
            impl.do_kv_cache_update(LAYER, both[0], both[1], self.cache, slots)
        starts = torch.tensor([0, 5, 6], dtype=torch.int32)
        plan = ops.cpu_attn_get_scheduler_metadata(
            num_reqs=2,
            num_heads=HEADS,
            num_kv_heads=KV_HEADS,
            head_dim=DIM,
            seq_lens=torch.tensor(lengths, dtype=torch.int32),
            dtype=dtype,
            query_start_loc=starts,
            causal=True,
            sliding_window_size=-1,
            isa="vec",
            enable_kv_split=False,
            dynamic_causal=None,
            kv_cache_dtype="auto",
        )
        seen = torch.tensor(lengths, dtype=torch.int32)
        self.metadata = Metadata(sum(queries), starts, seen, table, plan)
        # vLLM's buffers are padded: there is a token more than the step has.
        self.query = torch.randn(7, HEADS, DIM).to(dtype)
        self.output = torch.full((7, HEADS, DIM), -1.0, dtype=dtype)

    def run(self, impl: Any) -> torch.Tensor:
        self.output.fill_(-1.0)
        found: torch.Tensor = impl.forward(
            LAYER, self.query, None, None, self.cache, self.metadata, self.output
        )
        return found


@needs_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ours_gives_what_vllms_gives(dtype: torch.dtype, patched: Any) -> None:
    impl = impl_of(patched)
    step = Step(impl, dtype)
    theirs = impl_of(patched, attn_type=None)  # so that it is not for us

    expected = step.run(theirs).clone()
    found = step.run(impl)

    assert found is step.output
    assert impl.specgate_forward._attention is not None
    assert theirs.specgate_forward._attention is None
    close = 5e-6 if dtype is torch.float32 else 2**-7  # of values around 1
    torch.testing.assert_close(found, expected, rtol=0, atol=close)
    assert bool((found[6] == -1).all())


@needs_kernel
def test_another_cache_is_taken_when_it_comes(patched: Any) -> None:
    impl = impl_of(patched)
    step = Step(impl, torch.float32)
    first = step.run(impl).clone()

    step.cache = step.cache.clone()
    assert torch.equal(step.run(impl), first)
    step.cache.mul_(2)
    assert not torch.equal(step.run(impl), first)
    step.cache = step.cache.clone()
    step.cache.div_(2)
    assert torch.equal(step.run(impl), first)


@needs_kernel
def test_a_step_that_goes_on_is_taken_as_it_is_then(patched: Any) -> None:
    impl = impl_of(patched)
    step = Step(impl, torch.float32)
    first = step.run(impl).clone()

    step.metadata.seq_lens = step.metadata.seq_lens - 1
    assert not torch.equal(step.run(impl), first)
    step.metadata.seq_lens += 1
    assert torch.equal(step.run(impl), first)


class Theirs:
    """In place of vLLM's: notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any) -> str:
        self.asked.append(arguments)
        return "theirs"


@needs_kernel
@pytest.mark.parametrize(
    "change",
    [
        {"sliding_window": 16},
        {"alibi_slopes": torch.ones(HEADS)},
        {"sinks": torch.ones(HEADS)},
        {"logits_soft_cap": 30.0},
        {"is_fp8_kv_cache": True},
        {"attn_type": "encoder"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_layers_of_other_kinds_are_theirs(change: dict[str, Any]) -> None:
    from engine.worker.attention import _Forward

    theirs = Theirs()
    owner = type("Owner", (), {"forward": _Forward(theirs)})
    query = torch.zeros(1, HEADS, DIM)
    metadata = SimpleNamespace(causal=True, dynamic_causal=None)
    impl = impl_of(owner, **change)

    assert impl.forward(LAYER, query, None, None, None, metadata, query) == "theirs"
    assert theirs.asked == [(impl, LAYER, query, None, None, None, metadata, query, None, None)]


@needs_kernel
@pytest.mark.parametrize(
    ("metadata", "isa", "dtype", "scale"),
    [
        (None, "vec", torch.float32, None),
        (SimpleNamespace(causal=False, dynamic_causal=None), "vec", torch.float32, None),
        (SimpleNamespace(causal=True, dynamic_causal=torch.ones(1)), "vec", torch.float32, None),
        (SimpleNamespace(causal=True, dynamic_causal=None), "amx", torch.bfloat16, None),
        (SimpleNamespace(causal=True, dynamic_causal=None), "vec", torch.float16, None),
        (SimpleNamespace(causal=True, dynamic_causal=None), "vec", torch.float32, torch.ones(1)),
    ],
)
def test_steps_of_other_kinds_are_theirs(
    metadata: Any, isa: str, dtype: torch.dtype, scale: Any
) -> None:
    from engine.worker.attention import _Forward

    owner = type("Owner", (), {"forward": _Forward(Theirs())})
    query = torch.zeros(1, HEADS, DIM, dtype=dtype)
    layer = SimpleNamespace(isa=isa)

    found = impl_of(owner).forward(layer, query, None, None, None, metadata, query, scale)

    assert found == "theirs"


@needs_kernel
def test_vllm_is_told_once(patched: Any) -> None:
    from engine.worker.attention import attend_with_ours

    told = patched.__dict__["forward"]
    attend_with_ours()

    assert patched.__dict__["forward"] is told
