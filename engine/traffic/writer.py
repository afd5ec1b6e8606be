"""Stores what steps have recorded, on a thread of its own; what it cannot store is dropped."""

import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.traffic.ring import Ring
from engine.traffic.segment import Segment

_log = logging.getLogger(__name__)

DROP_REASONS = ("disk", "error", "queue")
"""Why segments are lost: they cannot be written, something is wrong, or too many wait."""

_MOST_WAITING = 64

# vLLM's CPU worker replaces `torch.set_num_threads` with a function that refuses.
_set_threads: Callable[[int], None] = torch._C.set_num_threads


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of a request that will be a segment.

    Attributes:
        tenant, request, target: Digests, as in `Segment`.
        prompt_rows: Rows of the prompt; they come first.
        tokens: Of all rows.
        states: Parts of the hidden states, bfloat16, on the CPU; undefined before `wait`.
        began_ns: Reading of `time.time_ns` at the first row.
        wait: Returns when the states have been copied.
    """

    tenant: str
    request: str
    target: str
    prompt_rows: int
    tokens: Sequence[int]
    states: Sequence[Tensor]
    began_ns: int
    wait: Callable[[], None]

    def segment(self) -> Segment:
        """Return the segment."""
        self.wait()
        return Segment(
            self.tenant,
            self.request,
            self.target,
            self.prompt_rows,
            torch.tensor(self.tokens, dtype=torch.int32),
            torch.cat(list(self.states)),
        )


class SegmentWriter:
    """Writes stretches to a ring.

    Attributes:
        tokens: Answer tokens that were stored.
        dropped: Lost segments by reason (`DROP_REASONS`).

    Args:
        ring: Where to.
    """

    def __init__(self, ring: Ring) -> None:
        self.tokens = 0
        self.dropped: Counter[str] = Counter(dict.fromkeys(DROP_REASONS, 0))
        self._ring = ring
        self._waiting: queue.Queue[Stretch | None] = queue.Queue(_MOST_WAITING)
        self._logged: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="traffic writer", daemon=True)
        self._thread.start()

    def offer(self, stretch: Stretch) -> None:
        """Have a stretch stored later; never waits."""
        try:
            self._waiting.put_nowait(stretch)
        except queue.Full:
            self.dropped["queue"] += 1

    def stop(self) -> None:
        """Store what waits, then end the thread."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        _set_threads(1)  # more would take the processors from a step
        while (stretch := self._waiting.get()) is not None:
            try:
                segment = stretch.segment()
                if self._ring.write(segment, began_ns=stretch.began_ns):
                    self.tokens += segment.answer_tokens
            except OSError as exc:
                self._drop("disk", exc)
            except Exception as exc:  # noqa: BLE001  # a background loop: counted and logged
                self._drop("error", exc)

    def _drop(self, reason: str, exc: Exception) -> None:
        self.dropped[reason] += 1
        if (cause := type(exc).__name__) not in self._logged:
            self._logged.add(cause)
            _log.error("recorded traffic cannot be stored and is dropped", exc_info=exc)
