"""A made-up CUDA device, so that code for CUDA runs and is judged on any machine.

Its tensors are computed in host memory, but they follow the rules of a device: operations do not
mix devices, values reach the host only by waiting for the stream, and a graph repeats the
operations of its capture on the same memory. It shows nothing of speed, precision or races.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Self

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("cuda", 0)

_aten = torch.ops.aten
_COPIES = (_aten._to_copy.default, _aten.copy_.default)
_INDEXING = (_aten.index.Tensor, _aten.index_put_.default, _aten._index_put_impl_.default)
# The host needs a value, or a number of values, before it can go on.
_READING = (
    _aten._local_scalar_dense.default,
    _aten._unique2.default,
    _aten.equal.default,
    _aten.masked_select.default,
    _aten.nonzero.default,
    _aten.repeat_interleave.Tensor,
)


class DeviceTensor(torch.Tensor):
    """A tensor on the made-up device; `held` has its values."""

    held: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Self:
        with torch.inference_mode(False):  # torch cannot view a wrapper made in it
            made: Self = torch.Tensor._make_wrapper_subclass(
                cls,
                held.size(),
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                device="meta",  # torch without CUDA refuses to index anything on a CUDA device
            )
        made.held = held
        return made

    @property
    def device(self) -> torch.device:
        return DEVICE

    @property
    def is_cuda(self) -> bool:
        return True

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __repr__(self) -> str:
        return f"DeviceTensor({self.held})"

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        raise AssertionError(f"{func} outside of the device's context")


class MadeUpCuda(TorchDispatchMode):
    """The device; a context in which tensors can be on it.

    Attributes:
        waits: Operations for which the host waited for the stream, in order.
        copies_in: Number of copies from the host to the device.
        copies_out: Number of those to the host that it does not wait for; zeros until it waits.
        captures: Number of graphs captured.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        self.copies_in = 0
        self.copies_out = 0
        self.captures = 0
        self._graph: Graph | None = None
        self._pinned: dict[int, torch.Tensor] = {}
        # Sources of copies that may still run, and what was in them when these began.
        self._running: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._arriving: list[tuple[torch.Tensor, torch.Tensor]] = []  # and what they will hold

    def reset(self) -> None:
        """Count from zero."""
        self.waits, self.copies_in, self.copies_out, self.captures = [], 0, 0, 0

    def synchronize(self, reason: str = "synchronize") -> None:
        """Wait for the stream."""
        assert self._graph is None, f"{reason} waits during a capture"
        for source, content in self._running:
            assert torch.equal(source, content), "the source of a copy changed before its end"
        for copy, content in self._arriving:
            copy.copy_(content)
        self._running, self._arriving = [], []
        self.waits.append(reason)

    @contextmanager
    def capture(self, graph: "Graph", **_: Any) -> Iterator[None]:
        """Record the operations within into a graph."""
        self.captures += 1
        self._graph = graph
        try:
            yield
        finally:
            self._graph = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        named: dict[str, Any] = dict(kwargs or {})
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with self:  # inference mode does not take it apart before
                return func.decompose(*args, **named)
        if func is _aten.is_pinned.default:
            return self._is_pinned(args[0])
        if func is _aten._pin_memory.default:
            copy = args[0].clone()
            self._pinned[copy.untyped_storage().data_ptr()] = copy
            return copy
        tensors = [leaf for leaf in tree_leaves((args, named)) if isinstance(leaf, torch.Tensor)]
        inside = [isinstance(tensor, DeviceTensor) for tensor in tensors]
        asked = torch.device(named["device"]).type if named.get("device") is not None else None
        if func in _COPIES:
            to_device = inside[0] if asked is None else asked == "cuda"
            if (to_device, inside[-1]) == (True, False):
                self._copy_in(tensors[-1], is_asynchronous=_is_asynchronous(func, args, named))
            elif (to_device, inside[-1]) == (False, True):
                if func is _aten._to_copy.default and _is_asynchronous(func, args, named):
                    return self._copy_out(self._compute(func, args, named, to_device=False))
                self.synchronize("copy to the host")
        elif asked == "cuda":
            to_device = True
        elif any(inside):
            to_device = True
            self._check(func, args, tensors)
        else:
            to_device = False
        return self._compute(func, args, named, to_device=to_device)

    def _check(self, func: Any, args: Sequence[Any], tensors: Sequence[torch.Tensor]) -> None:
        """Find hidden waits, and refuse operations on several devices."""
        if func in _READING:
            self.synchronize(str(func))
        outside = [one for one in tensors if not isinstance(one, DeviceTensor) and one.ndim]
        assert not any(one.is_meta for one in outside), f"{func}: a list as index waits"
        if func not in _INDEXING:
            assert not outside, f"{func}: tensors of several devices"
            return
        for indices in outside:  # torch moves them
            self._copy_in(indices, is_asynchronous=False)
        if any(one is not None and one.dtype == torch.bool for one in args[1]):
            self.synchronize("boolean index")

    def _copy_in(self, source: torch.Tensor, *, is_asynchronous: bool) -> None:
        self.copies_in += 1
        if is_asynchronous and self._is_pinned(source):
            self._running.append((source, source.clone()))
        else:
            self.synchronize("copy to the device")

    def _copy_out(self, copy: torch.Tensor) -> torch.Tensor:
        self.copies_out += 1
        self._arriving.append((copy, copy.clone()))
        return copy.zero_()

    def _is_pinned(self, tensor: torch.Tensor) -> bool:
        if isinstance(tensor, DeviceTensor):
            return False
        return tensor.untyped_storage().data_ptr() in self._pinned

    def _compute(
        self, func: Any, args: Sequence[Any], named: Mapping[str, Any], *, to_device: bool
    ) -> Any:
        wrappers: dict[int, torch.Tensor] = {}

        def unwrap(leaf: Any) -> Any:
            if isinstance(leaf, DeviceTensor):
                wrappers[id(leaf.held)] = leaf
                return leaf.held
            return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

        def wrap(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor) and to_device:
                return wrappers[id(leaf)] if id(leaf) in wrappers else DeviceTensor(leaf)
            return leaf

        inner = tree_map(unwrap, (tuple(args), dict(named)))
        made = func(*inner[0], **inner[1])
        if func in _COPIES and made is inner[0][0] and func is _aten._to_copy.default:
            made = made.clone()
        if self._graph is not None and to_device:
            self._graph.record(func, inner, made)
        return tree_map(wrap, made)


class Graph:
    """Operations that are repeated on the memory of their capture."""

    def __init__(self) -> None:
        self._operations: list[tuple[Any, Any, Any]] = []

    def record(self, func: Any, given: Any, made: Any) -> None:
        """Add an operation."""
        self._operations.append((func, given, made))

    @torch.inference_mode()
    def replay(self) -> None:
        """Repeat all operations."""
        for func, (args, named), before in self._operations:
            after = func(*args, **named)
            for kept, new in zip(tree_leaves(before), tree_leaves(after), strict=True):
                if isinstance(kept, torch.Tensor) and kept is not new:
                    kept.copy_(new)


class _Stream:
    def __init__(self, *_: Any) -> None: ...

    def wait_stream(self, _: "_Stream") -> None: ...


@contextmanager
def made_up_cuda(patch: pytest.MonkeyPatch) -> Iterator[MadeUpCuda]:
    """Enter the context of a device, with `torch.cuda` made up as far as heads use it."""
    cuda = MadeUpCuda()
    make_tensor = torch.tensor

    def tensor(data: Any, *, device: Any = None, **options: Any) -> torch.Tensor:
        made: torch.Tensor = make_tensor(data, **options)
        return made if device is None else made.to(device)

    # Modules that move get new parameters; torch would put the device's memory into the old ones.
    patch.setattr(torch.__future__, "get_overwrite_module_params_on_conversion", lambda: True)
    patch.setattr(torch, "tensor", tensor)  # torch hides its copy to the device from modes
    # vLLM replaces it where there is no CUDA.
    patch.setattr(torch.Tensor, "pin_memory", torch._C.TensorBase.pin_memory)
    patch.setattr(torch.cuda, "_lazy_init", lambda: None)
    patch.setattr(torch.cuda, "device", lambda _: nullcontext())
    patch.setattr(torch.cuda, "Stream", _Stream)
    patch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    patch.setattr(torch.cuda, "current_stream", _Stream)
    patch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 0))
    patch.setattr(torch.cuda, "CUDAGraph", Graph)
    patch.setattr(torch.cuda, "graph", cuda.capture)
    patch.setattr(torch.cuda, "synchronize", lambda *_: cuda.synchronize())
    with cuda:
        yield cuda


def _is_asynchronous(func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    if func is _aten.copy_.default and len(args) > 2:
        return bool(args[2])
    return bool(named.get("non_blocking", False))
