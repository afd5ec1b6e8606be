"""Consistent hashing: replicas that know nothing of each other name the same worker for a key."""

from bisect import bisect_left
from hashlib import blake2b

_POINTS = 64
"""Of each worker: then its share of the keys differs from the mean by some 12 %."""
_BITS = 2**64 - 1
_SPREAD = 0x9E3779B97F4A7C15
"""2**64 over the golden ratio: multiples of it are spread evenly over the ring."""


class Ring:
    """Workers on a circle of 64-bit numbers. A number belongs to the next worker on it.

    Source: Karger et al., "Consistent Hashing and Random Trees" (1997).
    """

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._workers: list[int] = []

    def join(self, worker: int, name: str) -> None:
        """Add a worker; `name` decides where it is."""
        for at in range(_POINTS):
            digest = blake2b(f"{name}#{at}".encode(), digest_size=8).digest()
            number = int.from_bytes(digest, "little")
            place = bisect_left(self._numbers, number)
            self._numbers.insert(place, number)
            self._workers.insert(place, worker)

    def leave(self, worker: int) -> None:
        """Remove a worker."""
        left = [
            point for point in zip(self._numbers, self._workers, strict=True) if point[1] != worker
        ]
        self._numbers = [number for number, _ in left]
        self._workers = [owner for _, owner in left]

    def owner(self, group: int, key: int, size: int) -> int:
        """The worker of `key`.

        Keys of one group go to `size` workers, some of which may be the same. Half of the keys stay
        where they are if the size is doubled.

        Args:
            group: 64 bits.
            key: At least as many bits as `size`.
            size: A power of two.
        """
        number = (group + (key & (size - 1)) * _SPREAD) & _BITS
        at = bisect_left(self._numbers, number)
        return self._workers[at if at < len(self._workers) else 0]
