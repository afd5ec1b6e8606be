"""A short look at a model on its machine before it serves: how long steps of some sizes take.

It is what the gate believes at first (docs/adr/0020), measured once for each model and machine and
kept in a file; measured beside others' work it is used, but not kept. Steps are empty: they have
no context and no scheduler, which the gate learns later.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from statistics import median

from pydantic import TypeAdapter, ValidationError

_log = logging.getLogger(__name__)

Points = tuple[tuple[int, float], ...]
"""(tokens, seconds)."""

_ROUNDS = 3
_STEADY_RATIO = 1.25
_POINTS = TypeAdapter(Points)


def sizes_up_to(most: int) -> list[int]:
    """Return the sizes to measure: two an octave, the last one `most`."""
    sizes = {most, 1}
    size = 2
    while size < most:
        sizes |= {size, min(most, size * 3 // 2)}
        size *= 2
    return sorted(sizes)


@dataclass(frozen=True, slots=True)
class Measured:
    """A profile that was measured.

    Attributes:
        points: What steps take.
        is_steady: Its rounds agree: nobody else was busy, so it is worth keeping.
    """

    points: Points
    is_steady: bool


def measure(
    run: Callable[[int], None],
    sizes: Sequence[int],
    *,
    budget_seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Time steps of some sizes, smallest first, in three rounds; the fastest of each counts.

    Args:
        run: Computes a step of so many tokens, to its end.
        sizes: Rising.
        budget_seconds: No further size, and no further round, is begun after so long.
        clock: Seconds.

    Returns:
        What was measured, made to rise. Others on the machine only make a step slower, so one that
        took longer than a larger one takes what that did.
    """
    times: list[list[float]] = []
    end = clock() + budget_seconds

    def took(size: int) -> float:
        began = clock()
        run(size)
        return clock() - began

    run(sizes[0])  # the first step of a process pays for what later ones find done
    for size in sizes:
        if times and clock() > end:
            break
        times.append([took(size)])
    for _ in range(1, _ROUNDS):
        if clock() > end:
            break
        for size, found in zip(sizes, times, strict=False):
            found.append(took(size))
    best = [min(found) for found in times]
    rising = reversed(list(accumulate(reversed(best), min)))
    return Measured(tuple(zip(sizes, rising, strict=False)), _agree(times))


def _agree(times: Sequence[Sequence[float]]) -> bool:
    """Whether the fastest two times of a size mostly are about the same."""
    if len(times[0]) < 2:
        return False
    return median(sorted(found)[1] / min(found) for found in times) <= _STEADY_RATIO


class ProfileFile:
    """Where the profile of one model on one machine is kept.

    Args:
        folder: Of all such files.
        facts: What the profile depends on; another fact is another file.
    """

    def __init__(self, folder: Path, facts: Mapping[str, str | int]) -> None:
        self._facts = dict(facts)
        name = sha256(json.dumps(self._facts, sort_keys=True).encode()).hexdigest()[:16]
        self._path = folder / f"{name}.json"

    def load(self) -> Points | None:
        """Return what was kept; None where there is nothing that can be read."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            if found["facts"] != self._facts:
                return None
            return _POINTS.validate_python(found["points"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, ValidationError) as exc:
            _log.warning("the profile of steps is measured anew: %s", exc)
            return None

    def save(self, points: Points) -> None:
        """Keep a profile.

        Raises:
            OSError: It cannot be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps({"facts": self._facts, "points": points}), encoding="utf-8")
        beside.replace(self._path)
