"""What the scheduler knows of the next step, for choosing its drafts; no vllm."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.policy import Load


@dataclass(frozen=True, slots=True)
class NextStep:
    """What the scheduler knows of the next step; it tells the rank that drafts.

    Attributes:
        prefill_tokens: Prompt tokens that it reads.
        context_tokens: Tokens in the KV caches of requests whose prompt is partly read.
        waiting: Requests whose prompt is partly read, or could be begun.
        room_tokens: Draft tokens for which the KV cache and the step have room; None if for all.
        read_tokens: Prompt tokens that the current step reads.
    """

    prefill_tokens: int = 0
    context_tokens: int = 0
    waiting: int = 0
    room_tokens: int | None = None
    read_tokens: int = 0

    def as_load(self) -> Load:
        """Return it for the drafter, which adds the sequences and the tokens in their caches."""
        return Load(
            0,
            prefill_tokens=self.prefill_tokens,
            context_tokens=self.context_tokens,
            waiting=self.waiting,
            room_tokens=self.room_tokens,
            read_tokens=self.read_tokens,
        )


NOTHING_KNOWN = NextStep()


def room_in_cache(free_blocks: int, block_tokens: int, *, sequences: int, most: int) -> int | None:
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


def prefill_of_step(
    unread: Iterable[int], *, room_tokens: int, longest_piece: int, in_pieces: bool
) -> int:
    """Return how many prompt tokens a step reads if drafts leave it the room.

    Args:
        unread: Tokens left of each prompt, in the order in which they are scheduled. A prompt that
            waits may turn out to be cached; then this is too much, for one step.
        room_tokens: Room in the step beside the next tokens of the decoding requests.
        longest_piece: Most tokens that a step reads of one prompt.
        in_pieces: Whether a prompt is split if it does not fit (chunked prefill). If not, it waits,
            and those after it.
    """
    total = 0
    for tokens in unread:
        piece = min(tokens, longest_piece)
        if piece > room_tokens - total and not in_pieces:
            break
        total = min(total + piece, room_tokens)
    return total


def room_in_step(
    budget_tokens: int, *, sequences: int, prefill_tokens: int, most: int
) -> int | None:
    """Return how many draft tokens the next step can take beside prompts and next tokens.

    vLLM schedules the running requests in turn until the step is full. If drafts asked for more,
    requests late in the list would get nothing, in each step the same.

    Args:
        budget_tokens: Most tokens of a step (`max_num_batched_tokens`).
        sequences: Requests that decode.
        prefill_tokens: Prompt tokens that the step reads.
        most: Length of the longest draft.

    Returns:
        Number of tokens; None if every sequence could have the longest draft.
    """
    room = max(0, budget_tokens - sequences - prefill_tokens)
    return None if room >= sequences * most else room
