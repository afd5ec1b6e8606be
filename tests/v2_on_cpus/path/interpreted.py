"""Lets vLLM's CPU build run kernels of Triton in Triton's interpreter, `TRITON_INTERPRET=1`.

Modules are changed right after they are imported, so that a process that needs none imports none.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, SimpleNamespace
from typing import Any

_NOTHING, _LEAST = 0.0, float("-inf")

WIDE: Mapping[str, Mapping[str, float]] = {
    "_compute_local_logits_stats_kernel": {
        "target_local_max_ptr": _LEAST,
        "target_local_sumexp_ptr": _NOTHING,
        "draft_local_max_ptr": _LEAST,
        "draft_local_sumexp_ptr": _NOTHING,
    },
    "_gumbel_sample_kernel": {"local_max_ptr": _LEAST},
    "_min_p_kernel": {},
    "_penalties_kernel": {},
    "_resample_kernel": {"resampled_local_max_ptr": _LEAST},
    "_temperature_kernel": {},
}
"""Kernels that go through the vocabulary in blocks, a program each, and their results by block.

The interpreter takes about a millisecond for a program, so a row becomes one block. The results of
the blocks that are not computed are set to what leaves their sum or maximum as it is.
"""


def prepare() -> None:
    """Change what needs it, now or when it is imported."""
    sys.meta_path.insert(0, _AfterImport())


def _claim_to_be_a_backend(module: Any) -> None:
    """vLLM's CPU build uses Triton only if it has a backend named `cpu`; none is ever called."""
    driver = SimpleNamespace(is_active=lambda: True)
    module.backends["cpu"] = SimpleNamespace(driver=driver, compiler=None)


def _change_interpreter(module: Any) -> None:
    _accept_masks(module)
    _speed_up(module)


def _accept_masks(module: Any) -> None:
    """Masks that were computed with integers are numbers, which the interpreter refuses."""
    builder = module.InterpreterBuilder
    load, store = builder.create_masked_load, builder.create_masked_store

    def as_mask(mask: Any) -> Any:
        mask.data = mask.data.astype(bool, copy=False)
        return mask

    def masked_load(self: Any, pointers: Any, mask: Any, *others: Any) -> Any:
        return load(self, pointers, as_mask(mask), *others)

    def masked_store(self: Any, pointers: Any, value: Any, mask: Any, *others: Any) -> Any:
        return store(self, pointers, value, as_mask(mask), *others)

    builder.create_masked_load, builder.create_masked_store = masked_load, masked_store


def _speed_up(module: Any) -> None:
    executor = module.GridExecutor
    call = executor.__call__

    def call_wide(self: Any, *args: Any, **named: Any) -> Any:
        if self.fn.__name__ in WIDE and len(self.grid) == 2:
            bound = dict(zip(self.arg_names, args, strict=False)) | named
            for name, neutral in WIDE[self.fn.__name__].items():
                bound[name].fill_(neutral)
            self.grid = (self.grid[0], 1)
            # Blocks are powers of two.
            named["BLOCK_SIZE"] = 1 << (bound["vocab_size"] - 1).bit_length()
        return call(self, *args, **named)

    executor.__call__ = call_wide
    # Tensors on the CPU are used in place; otherwise each call would copy them onto themselves.
    executor._restore_args_dev = lambda *_: None
    # Each call would replace Triton's language by the interpreter's, and put it back.
    patched: set[int] = set()
    patch = module._patch_lang

    def patch_once(fn: Any) -> Any:
        if id(fn.__globals__) not in patched:
            patched.add(id(fn.__globals__))
            kept.append(patch(fn))
        return SimpleNamespace(restore=lambda: None)

    kept: list[Any] = []
    module._patch_lang = patch_once


def _sample_without_triton(module: Any) -> None:
    """The kernel for top-k and top-p calls methods of numbers that the interpreter has not."""
    module.HAS_TRITON = False


def _schedule_as_on_gpus(module: Any) -> None:
    """vLLM turns async scheduling off on CPUs, whatever was set or chosen before."""
    check = module.CpuPlatform.check_and_update_config.__func__

    def check_and_keep(cls: Any, vllm_config: Any) -> None:
        scheduler = vllm_config.scheduler_config
        chosen = scheduler.async_scheduling
        check(cls, vllm_config)
        scheduler.async_scheduling = chosen

    module.CpuPlatform.check_and_update_config = classmethod(check_and_keep)


_CHANGES: Mapping[str, Callable[[Any], None]] = {
    "triton.backends": _claim_to_be_a_backend,
    "triton.runtime.interpreter": _change_interpreter,
    "vllm.platforms.cpu": _schedule_as_on_gpus,
    "vllm.v1.sample.ops.topk_topp_sampler": _sample_without_triton,
}


class _AfterImport(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = _CHANGES.get(fullname)
        spec = None if change is None else PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None or change is None:
            return None
        load = spec.loader.exec_module

        def load_and_change(module: ModuleType) -> None:
            load(module)
            change(module)

        spec.loader.exec_module = load_and_change  # type: ignore[method-assign]
        return spec
