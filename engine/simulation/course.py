"""The conditions of a run: how many requests, which texts, how slow the machine is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.simulation.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a run in which nothing changes.

    It ends by tokens, not by steps or time, so that every rule has to generate the same texts under
    the same conditions.

    Attributes:
        tokens: How many are generated in it, for each of the seats.
        seats: Closed loop: requests at once. Open loop: most that run at once.
        phase: Which texts are generated.
        slow: Every time is multiplied by it (a throttled machine).
        steep: What drafts and prompts add to a step is multiplied by it (a neighbour).
    """

    tokens: int
    seats: int
    phase: int = 0
    slow: float = 1.0
    steep: float = 1.0


@dataclass(frozen=True, slots=True)
class Course:
    """A run, stage by stage; arrays have one number for each.

    Attributes:
        ends: Tokens after which a stage ends, from the begin of the run.
        seats: As in `Stage`; likewise the next three.
        condition: Numbers the conditions of stages, equal ones alike.
        per_second: Arrivals of an open loop; None for a closed one, where a request follows as
            soon as another has ended.
    """

    ends: Ints
    seats: Ints
    phase: Ints
    slow: Floats
    steep: Floats
    condition: Ints
    per_second: float | None = None

    @property
    def tokens(self) -> int:
        """How many are generated in all."""
        return int(self.ends[-1])

    def stage(self, emitted: Ints) -> Ints:
        """Return the stage of lanes that have generated so many tokens; (lanes,)."""
        found = np.searchsorted(self.ends, emitted, side="right")
        return np.minimum(found, len(self.ends) - 1)


def course_of(stages: Sequence[Stage], *, per_second: float | None = None) -> Course:
    """Stages, one after the other."""
    conditions = [(s.seats, s.phase, s.slow, s.steep) for s in stages]
    distinct = list(dict.fromkeys(conditions))
    return Course(
        ends=np.cumsum([stage.tokens * stage.seats for stage in stages]),
        seats=np.array([stage.seats for stage in stages]),
        phase=np.array([stage.phase for stage in stages]),
        slow=np.array([stage.slow for stage in stages]),
        steep=np.array([stage.steep for stage in stages]),
        condition=np.array([distinct.index(condition) for condition in conditions]),
        per_second=per_second,
    )
