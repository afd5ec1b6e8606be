"""Methods that the tests add to a model worker (vLLM's `worker_extension_cls`): look, and break."""

import functools
import gc
import itertools
from typing import Any

from engine.policy import Price
from engine.suffix import SuffixIndex

EXTENSION = "tests.e2e.exactness.probe.Probe"
"""Its name in a profile."""

_ROOMS: dict[str, tuple[type, str]] = {
    "start": (SuffixIndex, "start"),
    "extend": (SuffixIndex, "extend"),
    "propose": (SuffixIndex, "propose_many"),
    "finish": (SuffixIndex, "finish"),
    "price": (Price, "settle"),
}
ROOMS = tuple(_ROOMS)
"""What can be made to fail: calls of the suffix index, and of the policy."""


class InjectedError(Exception):
    """What a broken room raises."""


class Probe:
    """Called over HTTP, `/collective_rpc`; arguments are strings."""

    model_runner: Any

    def specgate_held(self) -> dict[str, int]:
        """Count the requests that the drafter and the suffix index remember."""
        speculation = self.model_runner._speculation
        return {
            "drafter": len(speculation.drafter.running),
            "index": speculation._index.stats().requests,
        }

    def specgate_objects(self) -> dict[str, int]:
        """Count the containers that Python keeps alive in this process."""
        gc.collect()
        return {"objects": len(gc.get_objects())}

    def specgate_break(self, room: str, every: str) -> None:
        """Make each `every`th call of a room raise, until `specgate_mend`."""
        owner, name = _ROOMS[room]
        original = getattr(owner, name)
        calls = itertools.count(1)

        @functools.wraps(original)
        def failing(*args: Any, **kwargs: Any) -> Any:
            fails = next(calls) % int(every) == 0
            if fails and room != "finish":
                raise InjectedError(room)
            result = original(*args, **kwargs)
            if fails:  # what cannot be ended would stay in the index for ever
                raise InjectedError(room)
            return result

        setattr(owner, name, failing)

    def specgate_mend(self, room: str) -> None:
        """Undo `specgate_break`."""
        owner, name = _ROOMS[room]
        setattr(owner, name, getattr(owner, name).__wrapped__)
