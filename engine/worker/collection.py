"""Records tokens and hidden states of tenants that agreed, as steps bring them.

It sees what a head's memory sees (`HeadMemory.note`) and hands finished stretches to a thread that
stores them (`engine.traffic`). A step never waits: what cannot be stored is dropped and counted.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from vllm.utils.torch_utils import async_tensor_h2d

from engine.drafting import Control
from engine.traffic import SegmentWriter, Stretch, digest_of
from engine.worker.head import StepStates

_log = logging.getLogger(__name__)

_MOST_ROWS = 512
"""A longer text is stored in several segments; the later ones begin without what came before."""

_PROMPT_ROWS = 256
"""As far back as heads look when they draft."""

_MOST_REQUESTS = 64
"""Requests that are recorded at once; in memory they hold at most so many times `_MOST_ROWS`."""

_LEAST_TOKENS = 8
"""Answers that are shorter teach nothing worth a file."""


@dataclass(slots=True)
class _Open:
    """What was recorded of a request and is not stored yet."""

    tenant: str
    began_ns: int
    prompt_rows: int = 0
    tokens: list[int] = field(default_factory=list)
    states: list[Tensor] = field(default_factory=list)


class Recorder:
    """Records the requests of tenants that agreed (`Control.adapt`).

    For `note_prefill` it is a memory like that of a head with a window.

    Attributes:
        reach: How many of a prompt's last positions are recorded.

    Args:
        writer: Stores what is finished.
        control: Returns what a request asks for.
        target: Digest of the model.
    """

    def __init__(
        self, writer: SegmentWriter, control: Callable[[str], Control], *, target: str
    ) -> None:
        self.reach = _PROMPT_ROWS
        self._writer = writer
        self._control = control
        self._target = target
        self._open: dict[str, _Open] = {}
        self._is_failed = False

    @property
    def requests(self) -> Collection[str]:
        """The requests that are being recorded."""
        return self._open.keys()

    def wants(self, request: str) -> bool:
        """Whether to record a request."""
        return self._control(request).adapt

    def ignore(self, request: str) -> None:
        """Do nothing: what is not wanted is never recorded."""

    def note(
        self,
        requests: Sequence[str],
        tokens: Sequence[Sequence[int]],
        hidden: Tensor,
        first: Sequence[int],
    ) -> None:
        """Record positions of prompts; arguments as for `HeadMemory.note`."""
        for request in requests:
            known = self._open.get(request)
            if known is not None and len(known.tokens) > known.prompt_rows:
                self._finish(request)  # a prompt begins a stretch
        for request, new in self._add(requests, tokens, hidden, first):
            self._open[request].prompt_rows += new

    def take(
        self, requests: Sequence[str], sampled: Sequence[Sequence[int]], states: StepStates
    ) -> None:
        """Record the tokens of a step, each with the state from which it was sampled."""
        first = range(len(requests)) if states.first is None else states.first
        for request, _ in self._add(requests, sampled, states.hidden, first):
            if len(self._open[request].tokens) >= _MOST_ROWS:
                self._finish(request)

    def drop_prompts(self) -> None:
        """Drop requests of which only a part of the prompt is recorded."""
        for request, found in list(self._open.items()):
            if len(found.tokens) == found.prompt_rows:
                del self._open[request]

    def forget(self, requests: Collection[str]) -> None:
        """Finish requests that ended or left the batch; unknown ones are ignored."""
        for request in requests:
            if request in self._open:
                self._finish(request)

    def clear(self) -> None:
        """Finish all: the next step does not follow directly."""
        self.forget(list(self._open))

    def fail(self, exc: Exception) -> None:
        """Drop what is not finished, because of an error; logged once."""
        self._writer.dropped["error"] += len(self._open)
        self._open.clear()
        if not self._is_failed:
            self._is_failed = True
            _log.error("traffic cannot be recorded; serving goes on", exc_info=exc)

    def _add(
        self,
        requests: Sequence[str],
        tokens: Sequence[Sequence[int]],
        hidden: Tensor,
        first: Sequence[int],
    ) -> list[tuple[str, int]]:
        """Append rows to the wanted requests; return each with the number of its new rows."""
        added: list[tuple[str, int]] = []
        rows: list[int] = []
        for request, new, begin in zip(requests, tokens, first, strict=False):
            if not new or not self._is_open(request):
                continue
            added.append((request, len(new)))
            rows += range(begin, begin + len(new))
            self._open[request].tokens += new
        if not rows:
            return added
        states, at = _copy(hidden, rows), 0
        for request, count in added:
            self._open[request].states.append(states[at : at + count])
            at += count
        return added

    def _is_open(self, request: str) -> bool:
        """Whether a request is recorded; a wanted one begins now, if there is room."""
        if request in self._open:
            return True
        control = self._control(request)
        if not control.adapt or len(self._open) >= _MOST_REQUESTS:
            return False
        self._open[request] = _Open(digest_of(control.tenant), time.time_ns())
        return True

    def _finish(self, request: str) -> None:
        found = self._open.pop(request)
        if len(found.tokens) - found.prompt_rows < _LEAST_TOKENS:
            return
        self._writer.offer(
            Stretch(
                found.tenant,
                digest_of(request),
                self._target,
                found.prompt_rows,
                found.tokens,
                found.states,
                found.began_ns,
                _copied(found.states[-1]),
            )
        )


def _copy(hidden: Tensor, rows: Sequence[int]) -> Tensor:
    """Return these rows on the CPU in bfloat16; on a GPU the copy may go on after this."""
    if hidden.device.type == "cpu":
        return hidden[torch.tensor(rows)].to(torch.bfloat16)
    picked = hidden[async_tensor_h2d(np.array(rows), device=hidden.device)].to(torch.bfloat16)
    host = torch.empty(picked.shape, dtype=torch.bfloat16, pin_memory=True)
    return host.copy_(picked, non_blocking=True)


def _copied(states: Tensor) -> Callable[[], None]:
    """Return a function that waits for all copies that were begun before now."""
    if not states.is_pinned():
        return _at_once
    event = torch.cuda.Event()
    event.record()
    wait: Callable[[], None] = event.synchronize
    return wait


def _at_once() -> None:
    """Return: there is nothing to wait for."""
