"""What a step took, and what is known of the next one when drafts are chosen for it; no vllm."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.policy import Load


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the scheduler tells the rank that drafts, beside vLLM's own output of a step.

    Attributes:
        waiting: Requests that could begin now: those that wait while there are free seats. Who
            waits for a seat is not among them.
        prompt_tokens: Of theirs, to be read.
        room_tokens: Slots of the KV cache that are free for drafts; None while there is plenty.
    """

    waiting: int = 0
    prompt_tokens: int = 0
    room_tokens: int | None = None


def room_for_drafts(free_blocks: int, block_tokens: int, *, rows: int, most: int) -> int | None:
    """Return how many slots of the KV cache drafts may take without a request losing its place.

    Args:
        free_blocks: Of the cache.
        block_tokens: Slots of a block.
        rows: Requests that run; the next token of each may need a block.
        most: Longest draft.

    Returns:
        Slots, or None where all rows could have the longest draft.
    """
    needed = rows * -(-(1 + most) // block_tokens)
    if free_blocks >= needed:
        return None
    return max(0, free_blocks - rows) * block_tokens


def next_load(
    unread: Sequence[int],
    context_tokens: int,
    backlog: Backlog,
    *,
    budget_tokens: int,
    rows: int,
    read_tokens: int = 0,
) -> Load:
    """Return what is known of the next step.

    Args:
        unread: For each running request whose prompt is not read to its end: what is left of it.
        context_tokens: In the caches of requests that got no tokens.
        backlog: What the scheduler said last.
        budget_tokens: Most tokens of a step.
        rows: Requests that got tokens.
        read_tokens: Of prompts, that the step just computed read.
    """
    prompts = sum(unread) + backlog.prompt_tokens
    return Load(
        rows,
        prefill_tokens=max(0, min(prompts, budget_tokens - rows)),
        context_tokens=context_tokens,
        waiting=len(unread) + backlog.waiting,
        room_tokens=backlog.room_tokens,
        read_tokens=read_tokens,
    )


class Step(NamedTuple):
    """A step that was computed.

    Attributes:
        requests: Those in it.
        tokens: All that it computed: of rows, drafts and prompts.
        context_tokens: In the caches of its requests.
        head_seconds: Of it the head's pass.
        verifying: Its requests that got tokens, if any draft was verified; else 0.
    """

    requests: Collection[str]
    tokens: int
    context_tokens: int
    head_seconds: float
    verifying: int = 0


class StepTimer:
    """Times whole steps, from the begin of one to that of the next: scheduling and drafting too.

    Only while a request of the step goes on, since otherwise the engine may have been idle.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._last: Step | None = None

    def begin(self, now: float, gone: Collection[str]) -> tuple[Step, float] | None:
        """A step begins; returns the one before and its seconds without the head's pass.

        Args:
            now: Of any clock, in seconds.
            gone: Requests that ended, or lost their place, since the last step.
        """
        began, self._began = self._began, now
        last, self._last = self._last, None
        if last is None or all(request in gone for request in last.requests):
            return None
        return last, now - began - last.head_seconds

    def end(self, step: Step) -> None:
        """Say what was computed since `begin`; left out, it is not timed."""
        self._last = step
