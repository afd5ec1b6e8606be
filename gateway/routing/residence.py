"""Which worker's prefix cache holds which blocks of text, as far as requests have shown it."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_HIT_GROWTH = 1.02
_LEAST_LEFT = 0.5


@dataclass(slots=True)
class _Held:
    """The blocks of one worker, least recently used first: their tokens, and when they were used.

    Attributes:
        tokens: Of all blocks.
        capacity: Most tokens that its cache is believed to hold.
        limit: Most that it can hold, as the worker told.
    """

    capacity: float
    limit: float
    tokens: float = 0.0
    blocks: "OrderedDict[int, tuple[float, float]]" = field(default_factory=OrderedDict)


class Residence:
    """Learns from the prompts that were sent, and from what workers found in their caches.

    Workers are small integers. The workers that hold a block are the bits of one integer.

    Args:
        most_blocks: Of a worker; older ones are forgotten.
        most_tokens: Size of a cache whose worker does not tell it.
    """

    def __init__(self, *, most_blocks: int, most_tokens: float) -> None:
        self.most_blocks = most_blocks
        self._most_tokens = most_tokens
        self.where: dict[int, int] = {}
        self._held: dict[int, _Held] = {}

    def join(self, worker: int) -> None:
        """A worker joined, with an empty cache."""
        self._held[worker] = _Held(self._most_tokens, self._most_tokens)

    def leave(self, worker: int) -> None:
        """A worker left."""
        self.clear(worker)
        del self._held[worker]

    def clear(self, worker: int) -> None:
        """A worker has lost its cache."""
        held = self._held[worker]
        self._drop(worker, list(held.blocks))
        held.blocks.clear()
        held.tokens = 0.0

    def resize(self, worker: int, tokens: float) -> None:
        """A worker told the size of its cache."""
        held = self._held[worker]
        if tokens != held.limit:
            held.capacity = held.limit = tokens

    def last_used(self, worker: int, block: int) -> float:
        """When a block that `worker` holds was last used."""
        return self._held[worker].blocks[block][1]

    def use(self, worker: int, blocks: Sequence[int], tokens: Sequence[float], now: float) -> None:
        """A prompt was sent to a worker: it will hold the prompt's blocks.

        Args:
            worker: The worker.
            blocks: Their hashes, first to last; the last is the first to be evicted.
            tokens: Of each block.
            now: Seconds.
        """
        held, where, bit = self._held[worker], self.where, 1 << worker
        known = held.blocks
        for block, size in zip(reversed(blocks), reversed(tokens), strict=True):
            if block in known:
                held.tokens -= known[block][0]
                known.move_to_end(block)
            else:
                where[block] = where.get(block, 0) | bit
            known[block] = (size, now)
            held.tokens += size
        while held.tokens > held.capacity or len(known) > self.most_blocks:
            block, (size, _) = known.popitem(last=False)
            held.tokens -= size
            self._drop(worker, (block,))

    def confirm(self, worker: int) -> None:
        """A worker's cache held what was expected: it may hold more than was believed."""
        held = self._held[worker]
        held.capacity = min(held.limit, held.capacity * _HIT_GROWTH)

    def correct(self, worker: int, used_before: float) -> None:
        """A block last used at `used_before` was gone, so all that are older are gone as well."""
        held = self._held[worker]
        gone = []
        for block, (size, used) in held.blocks.items():
            if used > used_before:
                break
            gone.append(block)
            held.tokens -= size
        for block in gone:
            del held.blocks[block]
        self._drop(worker, gone)
        held.capacity = max(held.tokens, held.capacity * _LEAST_LEFT)

    def _drop(self, worker: int, blocks: Iterable[int]) -> None:
        where, bit = self.where, 1 << worker
        for block in blocks:
            left = where[block] & ~bit
            if left:
                where[block] = left
            else:
                del where[block]
