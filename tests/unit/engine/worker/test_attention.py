"""Which attention a layer uses; tests/unit/engine/kernels checks the results."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm import _custom_ops as ops
from vllm.platforms.cpu import CpuPlatform
from vllm.utils.import_utils import resolve_obj_by_qualname
from vllm.v1.attention.backend import AttentionType
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackend,
    CPUAttentionBackendImpl,
    CPUAttentionMetadataBuilder,
)
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from vllm.v1.attention.selector import AttentionSelectorConfig

from engine.kernels import attention_kernels
from engine.worker.attention import Attention, Backend, Builder, attend_with_ours

needs_kernel = pytest.mark.skipif(
    not attention_kernels(torch.float32), reason="needs a processor with AVX2 and FMA, or AVX-512"
)

HEADS, KV_HEADS, DIM, BLOCK = 6, 2, 32, 32


def backend() -> Any:
    """What vLLM's CPU platform chooses for a layer that is built now."""
    wanted = AttentionSelectorConfig(DIM, torch.bfloat16, "auto", BLOCK)
    path = CpuPlatform.get_attn_backend_cls(AttentionBackendEnum.CPU_ATTN, wanted)
    return resolve_obj_by_qualname(path)


@pytest.fixture
def registry() -> Iterator[None]:
    yield
    AttentionBackendEnum.CPU_ATTN.clear_override()


@needs_kernel
@pytest.mark.usefixtures("registry")
def test_vllm_builds_layers_with_our_backend_once_it_is_registered() -> None:
    before = backend()

    attend_with_ours()
    attend_with_ours()  # idempotent

    assert before is CPUAttentionBackend
    assert backend() is Backend
    assert backend().get_name() == before.get_name()
    assert (backend().get_impl_cls(), backend().get_builder_cls()) == (Attention, Builder)


@needs_kernel
@pytest.mark.parametrize(
    ("isa", "dtype", "cache", "transfer", "layout"),
    [
        ("amx", torch.bfloat16, "auto", None, "vec"),
        ("amx", torch.float16, "auto", None, "amx"),
        ("amx", torch.bfloat16, "fp8", None, "amx"),
        ("amx", torch.bfloat16, "auto", object(), "amx"),
        ("vec16", torch.bfloat16, "auto", None, "vec16"),
    ],
)
def test_the_cache_has_our_layout_where_our_kernel_computes(
    isa: str,
    dtype: torch.dtype,
    cache: str,
    transfer: object,
    layout: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    tell = CPUAttentionMetadataBuilder, "_set_isa_to_layers"
    monkeypatch.setattr(*tell, lambda self, names: told.append(self.isa))
    builder: Any = object.__new__(Builder)
    builder.isa, builder.dtype, builder.kv_cache_dtype = isa, dtype, cache
    builder.vllm_config = SimpleNamespace(kv_transfer_config=transfer)

    builder._set_isa_to_layers(["layer"])

    assert (told, builder.isa) == ([layout], layout)


def impl_of(**changes: Any) -> Any:
    """The implementation of a plain decoder layer, as vLLM makes it."""
    impl: Any = object.__new__(Attention)
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
    """The fields of vLLM's metadata that attention reads."""

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
        # vLLM's buffers are padded: one token more than the step has.
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
def test_our_attention_equals_vllms(dtype: torch.dtype) -> None:
    impl = impl_of()
    step = Step(impl, dtype)
    theirs = impl_of(attn_type=None)  # not supported by ours

    expected = step.run(theirs).clone()
    found = step.run(impl)

    assert found is step.output
    assert impl._attention is not None
    assert theirs._attention is None
    close = 5e-6 if dtype is torch.float32 else 2**-7  # of values around 1
    torch.testing.assert_close(found, expected, rtol=0, atol=close)
    assert bool((found[6] == -1).all())


@needs_kernel
def test_a_new_cache_is_noticed() -> None:
    impl = impl_of()
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
def test_changed_metadata_of_a_step_are_noticed() -> None:
    impl = impl_of()
    step = Step(impl, torch.float32)
    first = step.run(impl).clone()

    step.metadata.seq_lens = step.metadata.seq_lens - 1
    assert not torch.equal(step.run(impl), first)
    step.metadata.seq_lens += 1
    assert torch.equal(step.run(impl), first)


PLAIN = {"causal": True, "dynamic_causal": None}


@needs_kernel
@pytest.mark.parametrize(
    ("layer", "metadata", "isa", "dtype", "scale"),
    [
        ({"sliding_window": 16}, PLAIN, "vec", torch.float32, None),
        ({"alibi_slopes": torch.ones(HEADS)}, PLAIN, "vec", torch.float32, None),
        ({"sinks": torch.ones(HEADS)}, PLAIN, "vec", torch.float32, None),
        ({"logits_soft_cap": 30.0}, PLAIN, "vec", torch.float32, None),
        ({"is_fp8_kv_cache": True}, PLAIN, "vec", torch.float32, None),
        ({"attn_type": "encoder"}, PLAIN, "vec", torch.float32, None),
        ({}, None, "vec", torch.float32, None),
        ({}, {**PLAIN, "causal": False}, "vec", torch.float32, None),
        ({}, {**PLAIN, "dynamic_causal": torch.ones(1)}, "vec", torch.float32, None),
        ({}, PLAIN, "amx", torch.bfloat16, None),
        ({}, PLAIN, "vec", torch.float16, None),
        ({}, PLAIN, "vec", torch.float32, torch.ones(1)),
    ],
)
def test_other_layers_and_steps_stay_with_vllm(
    layer: dict[str, Any],
    metadata: dict[str, Any] | None,
    isa: str,
    dtype: torch.dtype,
    scale: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[Any, ...]] = []

    def theirs(*given: Any) -> str:
        asked.append(given)
        return "theirs"

    monkeypatch.setattr(CPUAttentionBackendImpl, "forward", theirs)
    query = torch.zeros(1, HEADS, DIM, dtype=dtype)
    of = (SimpleNamespace(isa=isa), query, None, None, None)
    step = None if metadata is None else SimpleNamespace(**metadata)
    impl = impl_of(**layer)

    assert impl.forward(*of, step, query, scale) == "theirs"
    assert asked == [(impl, *of, step, query, scale, None)]
