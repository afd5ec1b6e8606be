"""What is simulated: traffic, loads, shifts, and how much of each; as data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from bench.gate_sim.processes import (
    CHAT,
    CHAT_TOO_MODEST,
    CREATIVE,
    EDIT,
    EDIT_SHARP,
    EDIT_TOO_MODEST,
    EDIT_TOO_SURE,
    SHORT,
    SURE,
    UNSURE,
    WARM,
    Process,
)
from bench.gate_sim.start import Start
from engine.simulation.course import Stage
from engine.simulation.schedules import Source

TEXTS = 128
"""Answers of a seed; a run that needs more begins again with the first."""


CURVES = Path(__file__).parent / "curves"
"""The machines."""


class PlanError(Exception):
    """Something was asked for that the plan does not have; the message says what."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is generated, and what drafts for it.

    Attributes:
        phases: A run is in one of them at a time; none of them: the recordings.
    """

    name: str
    source: Source
    phases: tuple[Process, ...] = ()


@dataclass(frozen=True, slots=True)
class Shift:
    """A run in which conditions change.

    Attributes:
        counts: Whether it tells how fast a rule recovers; where conditions change before it could,
            only speed is judged.
    """

    name: str
    traffic: Traffic
    stages: Sequence[Stage]
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Grid:
    """Every curve with every traffic at every load.

    Attributes:
        curves: Names of the curves.
        loads: Closed loops: requests at once. Open loops: arrivals over the most that is served
            without drafts.
    """

    curves: Sequence[str]
    traffics: Sequence[Traffic]
    loads: Sequence[float]

    def points(self) -> Iterator[tuple[str, Traffic, float]]:
        """Each combination."""
        return product(self.curves, self.traffics, self.loads)


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of the benchmark.

    Attributes:
        closed: Closed loops.
        opened: Open loops.
        shift_curves: Names of the curves that shifts are tried on.
        started: Closed loops that wrong starts are tried with.
        seeds: Of everything but shifts.
        shift_seeds: Of shifts, which are looked at over few steps.
        tokens: That a run generates, if that lies within `tokens_a_seat`.
        tokens_a_seat: Fewest and most tokens of a run for each request at once.
        start_tokens: Tokens for each request after a wrong start: a few hundred steps.
        open_seats: Most requests that run at once in an open loop.
    """

    closed: Sequence[Grid]
    opened: Grid
    shift_curves: Sequence[str]
    shifts: Sequence[Shift]
    started: Grid
    starts: Sequence[Start]
    seeds: int
    shift_seeds: int
    tokens: int
    tokens_a_seat: tuple[int, int]
    start_tokens: int = 600
    open_seats: int = 32

    def tokens_for(self, seats: int) -> int:
        """How many tokens a run has for each of so many requests at once."""
        least, most = self.tokens_a_seat
        return min(most, max(least, self.tokens // seats))


CHAT_TRAFFIC = Traffic("chat", "head", (CHAT,))
EDIT_TRAFFIC = Traffic("edit", "both", (EDIT,))
CREATIVE_TRAFFIC = Traffic("creative", "both", (CREATIVE,))
SHORT_TRAFFIC = Traffic("short", "head", (SHORT,))
MISSTATED_TRAFFICS = (
    Traffic("edit-too-sure", "both", (EDIT_TOO_SURE,)),
    Traffic("edit-too-modest", "both", (EDIT_TOO_MODEST,)),
    Traffic("edit-sharp", "suffix", (EDIT_SHARP,)),
    Traffic("warm", "both", (WARM,)),
    Traffic("chat-too-modest", "head", (CHAT_TOO_MODEST,)),
)
"""Drafters that are miscalibrated; those of other traffic are nearly right."""
RECORDED_TRAFFIC = Traffic("recorded", "suffix")
_LONG = replace(EDIT, name="long", answer_tokens=400.0, prompt_tokens=40.0)
_SHIFTING = Traffic("sure-unsure", "both", (SURE, UNSURE))
_STEADY = Traffic("long", "both", (_LONG,))
_TOKENS = 300
"""Of a stage, for each request at once: 100 steps and more."""


def _there_and_back(name: str, traffic: Traffic, first: Stage, other: Stage) -> Shift:
    return Shift(name, traffic, [first, other, first])


def _stage(seats: int, *, phase: int = 0, slow: float = 1.0, steep: float = 1.0) -> Stage:
    return Stage(_TOKENS, seats, phase, slow, steep)


ACCEPTANCE = _there_and_back(
    "acceptance 0.8 to 0.2 and back", _SHIFTING, _stage(8), _stage(8, phase=1)
)
LOAD = _there_and_back("load 1 to 64 and back", _STEADY, Stage(5 * _TOKENS, 1), _stage(64))
THROTTLED = _there_and_back("step time doubles", _STEADY, _stage(8), _stage(8, slow=2.0))
NEIGHBOUR = _there_and_back("time of a token doubles", _STEADY, _stage(8), _stage(8, steep=2.0))


def oscillating(around: int) -> Shift:
    """Load that crosses a batch size back and forth (vllm issue 49548)."""
    apart = max(1, around // 8)
    both = [Stage(24, around - apart), Stage(24, around + apart)]
    return Shift(f"load around {around}", _STEADY, both * 15, counts=False)


STARTS = (
    Start("twice as fast as believed", slow=2.0),
    Start("twice as slow as believed", slow=0.5),
    Start("slope believed 3x too steep", steep=3.0),
    Start("slope believed 3x too flat", steep=1 / 3),
    Start("head believed 3x too dear", head=3.0),
    Start("head believed 3x too cheap", head=1 / 3),
)

SMOOTH = ("cpu-smollm2", "cpu-smollm2-sampled", "cpu-qwen-coder", "gpu-8b", "gpu-70b-tp4")
STAIRCASES = ("cpu-tiles", "gpu-1b-captured", "gpu-8b-captured", "gpu-graphs")

FULL = Plan(
    closed=[
        Grid(
            (*SMOOTH, *STAIRCASES),
            (CHAT_TRAFFIC, EDIT_TRAFFIC),
            (1, 2, 4, 8, 16, 32, 64, 128, 256),
        ),
        Grid(
            (*SMOOTH, *STAIRCASES),
            (CREATIVE_TRAFFIC, RECORDED_TRAFFIC),
            (1, 4, 16, 64, 256),
        ),
        Grid(
            ("cpu-smollm2", "gpu-8b", "gpu-1b-captured", "cpu-tiles"),
            MISSTATED_TRAFFICS,
            (1, 8, 64),
        ),
    ],
    opened=Grid((*SMOOTH, *STAIRCASES), (EDIT_TRAFFIC, SHORT_TRAFFIC), (0.5, 0.85)),
    shift_curves=("cpu-smollm2", "cpu-smollm2-sampled", "gpu-8b"),
    shifts=(ACCEPTANCE, LOAD, THROTTLED, NEIGHBOUR, oscillating(8), oscillating(32)),
    started=Grid(
        ("cpu-smollm2", "gpu-8b", "gpu-1b-captured"), (CHAT_TRAFFIC, EDIT_TRAFFIC), (1, 16, 128)
    ),
    starts=STARTS,
    seeds=3,
    shift_seeds=6,
    tokens=12_000,
    tokens_a_seat=(200, 2_400),
)
QUICK = Plan(
    closed=[
        Grid(
            ("cpu-smollm2", "gpu-8b", "gpu-8b-captured", "cpu-tiles"),
            (CHAT_TRAFFIC, EDIT_TRAFFIC),
            (1, 16, 256),
        ),
        Grid(
            ("cpu-smollm2", "gpu-1b-captured"), (MISSTATED_TRAFFICS[0], MISSTATED_TRAFFICS[3]), (8,)
        ),
    ],
    opened=Grid(("gpu-8b",), (SHORT_TRAFFIC,), (0.85,)),
    shift_curves=("gpu-8b",),
    shifts=(ACCEPTANCE, LOAD),
    started=Grid(("cpu-smollm2", "gpu-8b"), (EDIT_TRAFFIC,), (4,)),
    starts=STARTS,
    seeds=2,
    shift_seeds=6,
    tokens=8_000,
    tokens_a_seat=(120, 800),
)
