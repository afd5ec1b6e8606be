"""The timing of a step, and what is known of the next one when its drafts are chosen; no vllm."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.policy import Load


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the scheduler tells the drafting rank, beside vLLM's own output of a step.

    Attributes:
        waiting: Requests that could start now: waiting requests for which the batch has room.
        prompt_tokens: Their prompt tokens still to compute.
        room_tokens: KV cache slots free for drafts; None if there are plenty.
    """

    waiting: int = 0
    prompt_tokens: int = 0
    room_tokens: int | None = None


def room_for_drafts(
    free_blocks: int, block_tokens: int, *, sequences: int, most: int
) -> int | None:
    """Return how many KV cache slots drafts may use without causing a preemption.

    Args:
        free_blocks: Free blocks of the KV cache.
        block_tokens: Slots per block.
        sequences: Running requests; the next token of each may need a block.
        most: Length of the longest draft.

    Returns:
        Number of slots; None if every sequence could have the longest draft.
    """
    needed = sequences * -(-(1 + most) // block_tokens)
    if free_blocks >= needed:
        return None
    return max(0, free_blocks - sequences) * block_tokens


def next_load(
    unread: Sequence[int],
    context_tokens: int,
    backlog: Backlog,
    *,
    budget_tokens: int,
    sequences: int,
    read_tokens: int = 0,
) -> Load:
    """Return what is known of the next step.

    Args:
        unread: Prompt tokens left of each running request whose prompt is partly read.
        context_tokens: Tokens in the caches of requests that got no tokens.
        backlog: The scheduler's latest.
        budget_tokens: Maximum tokens per step.
        sequences: Requests that got tokens.
        read_tokens: Prompt tokens computed in the last step.
    """
    prompts = sum(unread) + backlog.prompt_tokens
    return Load(
        sequences,
        prefill_tokens=max(0, min(prompts, budget_tokens - sequences)),
        context_tokens=context_tokens,
        waiting=len(unread) + backlog.waiting,
        room_tokens=backlog.room_tokens,
        read_tokens=read_tokens,
    )


class Step(NamedTuple):
    """A step that was computed.

    Attributes:
        requests: The requests in it.
        tokens: All tokens computed: next tokens, drafts and prompts.
        context_tokens: Tokens in the caches of its requests.
        head_seconds: Time of the head's pass.
        verifying: Requests that got tokens, if any draft was verified; else 0.
    """

    requests: Collection[str]
    tokens: int
    context_tokens: int
    head_seconds: float
    verifying: int = 0


class StepTimer:
    """Times whole steps, from the start of one to the start of the next.

    That includes scheduling and drafting. A step counts only if one of its requests goes on, since
    the engine may have been idle otherwise.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._last: Step | None = None

    def begin(self, now: float, gone: Collection[str]) -> tuple[Step, float] | None:
        """Start a step; return the previous one and its seconds without the head's pass.

        Args:
            now: Reading of any clock, in seconds.
            gone: Requests that finished or were preempted since the last step.

        Returns:
            None if the previous step cannot be timed.
        """
        began, self._began = self._began, now
        last, self._last = self._last, None
        if last is None or all(request in gone for request in last.requests):
            return None
        return last, now - began - last.head_seconds

    def end(self, step: Step) -> None:
        """Set the step that was computed since `begin`; a step without `end` is not timed."""
        self._last = step
