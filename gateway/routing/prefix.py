"""Prompts as chains of hashes: two prompts that begin alike have the same first hashes."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

_LEAST_BYTES = 1024
_GROWTH_SHIFT = 3
"""Each block is an eighth of what lies before it, so a prompt of n bytes has some 8 ln n blocks."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Where a prompt may have been read before.

    Attributes:
        hashes: Of the text up to the end of each block, shortest first.
        ends: Those ends, in bytes; as many as `hashes`.
        length: Of the whole prompt, in bytes.
        key: The same for all turns of a conversation, at all replicas.
        continues: Whether the prompt holds earlier answers.
    """

    hashes: tuple[int, ...]
    ends: tuple[int, ...]
    length: int
    key: int
    continues: bool = False


NO_PREFIX = Prefix((), (), 0, 0)


def hash_prefix(
    salt: Sequence[str], parts: Sequence[bytes | memoryview], *, opening: int, continues: bool
) -> Prefix:
    """Hash a prompt.

    Args:
        salt: What has to be equal for two requests to share a cache: model, tenant, their salt.
        parts: The prompt, in order.
        opening: How many of its bytes identify the conversation.
        continues: As in `Prefix`.

    Cost: linear in the bytes; some 2 us for each of the blocks.
    """
    state = blake2b(digest_size=8)
    for part in salt:
        state.update(part.encode())
        state.update(b"\0")
    opened = state.copy()
    hashes: list[int] = []
    ends: list[int] = []
    length, end = 0, _LEAST_BYTES
    for part in parts:
        view, at = memoryview(part), 0
        if length < opening:
            opened.update(view[: opening - length])
        while len(view) - at >= end - length:
            taken = end - length
            state.update(view[at : at + taken])
            at, length = at + taken, end
            hashes.append(int.from_bytes(state.digest(), "little"))
            ends.append(end)
            end += max(_LEAST_BYTES, end >> _GROWTH_SHIFT)
        state.update(view[at:])
        length += len(view) - at
    key = int.from_bytes(opened.digest(), "little")
    return Prefix(tuple(hashes), tuple(ends), length, key, continues)


def block_ends(length: int) -> list[int]:
    """The ends of the blocks of a prompt of `length` bytes."""
    ends, end = [], _LEAST_BYTES
    while end <= length:
        ends.append(end)
        end += max(_LEAST_BYTES, end >> _GROWTH_SHIFT)
    return ends
