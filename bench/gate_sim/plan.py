"""What is simulated: traffic, loads, shifts, and how much of each; as data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.gate_sim.course import Stage
from bench.gate_sim.processes import CHAT, CREATIVE, EDIT, SHORT, SURE, UNSURE, Process
from bench.gate_sim.schedules import Source

TEXTS = 128
"""Answers of a seed; a run that needs more begins again with the first."""


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
class Plan:
    """One run of the benchmark.

    Attributes:
        curves: Names of the curves.
        loads: Requests at once, of closed loops.
        traffics: What each load is tried with, on each curve.
        open_loads: Arrivals of open loops, over the most that is served without drafts.
        open_traffics: What those are tried with.
        shift_curves: Names of the curves that shifts are tried on.
        seeds: Of everything but shifts.
        shift_seeds: Of shifts, which are looked at over few steps.
        tokens: That a run generates, if that lies within `tokens_a_seat`.
        tokens_a_seat: Fewest and most tokens of a run for each request at once.
        open_seats: Most requests that run at once in an open loop.
    """

    curves: Sequence[str]
    loads: Sequence[int]
    traffics: Sequence[Traffic]
    open_loads: Sequence[float]
    open_traffics: Sequence[Traffic]
    shift_curves: Sequence[str]
    shifts: Sequence[Shift]
    seeds: int
    shift_seeds: int
    tokens: int
    tokens_a_seat: tuple[int, int]
    open_seats: int = 32

    def tokens_for(self, seats: int) -> int:
        """How many tokens a run has for each of so many requests at once."""
        least, most = self.tokens_a_seat
        return min(most, max(least, self.tokens // seats))


CHAT_TRAFFIC = Traffic("chat", "head", (CHAT,))
EDIT_TRAFFIC = Traffic("edit", "both", (EDIT,))
CREATIVE_TRAFFIC = Traffic("creative", "both", (CREATIVE,))
SHORT_TRAFFIC = Traffic("short", "head", (SHORT,))
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


ACCEPTANCE = _there_and_back("acceptance 0.8, 0.2, 0.8", _SHIFTING, _stage(8), _stage(8, phase=1))
LOAD = _there_and_back("load 1, 64, 1", _STEADY, Stage(5 * _TOKENS, 1), _stage(64))
THROTTLED = _there_and_back("step time doubles", _STEADY, _stage(8), _stage(8, slow=2.0))
NEIGHBOUR = _there_and_back("time of a token doubles", _STEADY, _stage(8), _stage(8, steep=2.0))


def oscillating(around: int) -> Shift:
    """Load that crosses a batch size back and forth (vllm issue 49548)."""
    apart = max(1, around // 8)
    both = [Stage(24, around - apart), Stage(24, around + apart)]
    return Shift(f"load around {around}", _STEADY, both * 15, counts=False)


BEYOND = frozenset({"gpu-graphs"})
"""Curves that are harder than what the gate is required to handle; not part of the worst run."""

FULL = Plan(
    curves=(
        "cpu-smollm2",
        "cpu-smollm2-sampled",
        "cpu-qwen-coder",
        "gpu-8b",
        "gpu-70b-tp4",
        "gpu-graphs",
    ),
    loads=(1, 2, 4, 8, 16, 32, 64, 128, 256),
    traffics=(CHAT_TRAFFIC, EDIT_TRAFFIC, CREATIVE_TRAFFIC, RECORDED_TRAFFIC),
    open_loads=(0.5, 0.85),
    open_traffics=(EDIT_TRAFFIC, SHORT_TRAFFIC),
    shift_curves=("cpu-smollm2", "cpu-smollm2-sampled", "gpu-8b"),
    shifts=(ACCEPTANCE, LOAD, THROTTLED, NEIGHBOUR, oscillating(8), oscillating(32)),
    seeds=5,
    shift_seeds=8,
    tokens=16_000,
    tokens_a_seat=(200, 3_000),
)
QUICK = Plan(
    curves=("cpu-smollm2", "gpu-8b"),
    loads=(1, 16, 256),
    traffics=(CHAT_TRAFFIC, EDIT_TRAFFIC),
    open_loads=(0.85,),
    open_traffics=(SHORT_TRAFFIC,),
    shift_curves=("gpu-8b",),
    shifts=(ACCEPTANCE, LOAD),
    seeds=2,
    shift_seeds=6,
    tokens=8_000,
    tokens_a_seat=(120, 800),
)
