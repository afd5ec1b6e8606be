"""Methods that the tests add to a model worker (vLLM's `worker_extension_cls`): look, and break."""

import functools
import gc
import itertools
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

EXTENSION = "tests.e2e.exactness.probe.Probe"
"""Its name in a profile."""

_ROOMS = {
    "start": ("engine.suffix:SuffixIndex", "start"),
    "finish": ("engine.suffix:SuffixIndex", "finish"),
    "price": ("engine._core.drafting:Batch", "draft"),
    "head": ("engine.heads:DraftHead", "guess"),
    "head ahead": ("engine.heads:DraftHead", "propose"),
    "memory": ("engine.heads:HeadMemory", "note"),
    "forgetting": ("engine.heads:HeadMemory", "forget"),
    "texts": ("engine.worker.v2.requests:Requests", "extend"),
    "verification": ("engine.worker.v1.runner", "verify"),
}
_OF_THE_OTHERS = {
    "v1": ("texts", "head ahead"),
    "v2": ("verification", "head ahead"),
    # A head that drafts ahead has no memory.
    "v2-ahead": ("verification", "head", "memory", "forgetting"),
}


def rooms_of(runner: str) -> tuple[str, ...]:
    """Return what can be made to fail on a runner: calls of index, policy, head and hooks.

    By name, since only a worker has vllm.

    Args:
        runner: `v1`, `v2`, or `v2-ahead` if no step waits for the tokens of the last one.
    """
    return tuple(room for room in _ROOMS if room not in _OF_THE_OTHERS[runner])


class InjectedError(Exception):
    """What a broken room raises."""


class Probe:
    """Called over HTTP, `/collective_rpc`; arguments are strings."""

    model_runner: Any

    def specgate_held(self) -> dict[str, int]:
        """Count the requests that the drafter, the suffix index and the draft head remember."""
        speculation = self.model_runner.speculation
        memory = speculation.step.heads.serving.memory
        return {
            "drafter": len(speculation.drafter.running),
            "index": speculation._index.stats().requests,
            "head": 0 if memory is None else len(memory.requests),
        }

    def specgate_objects(self) -> dict[str, int]:
        """Count the containers that Python keeps alive in this process."""
        gc.collect()
        return {"objects": len(gc.get_objects())}

    def specgate_kernels(self) -> dict[str, int]:
        """Count the layers that our CPU kernels compute."""
        is_ours = resolve_name("engine.worker.linear:is_ours")
        attention = resolve_name("engine.worker.attention:Attention")
        layers = list(self.model_runner.model.modules())
        return {
            "linear": sum(is_ours(layer) for layer in layers),
            "attention": sum(isinstance(getattr(one, "impl", None), attention) for one in layers),
        }

    def specgate_break(self, room: str, every: str) -> None:
        """Make each `every`th call of a room raise, until `specgate_mend`."""
        owner, name = _room(room)
        calls = itertools.count(1)

        def failing(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                fails = next(calls) % int(every) == 0
                if fails and room != "finish":
                    raise InjectedError(room)
                result = original(*args, **kwargs)
                if fails:  # what cannot be ended would stay in the index for ever
                    raise InjectedError(room)
                return result

            return call

        setattr(owner, name, failing(getattr(owner, name)))

    def specgate_mend(self, room: str) -> None:
        """Undo `specgate_break`."""
        owner, name = _room(room)
        setattr(owner, name, getattr(owner, name).__wrapped__)


def _room(name: str) -> tuple[Any, str]:
    owner, call = _ROOMS[name]
    return resolve_name(owner), call
