"""How much the pacing benchmark does: counts, durations and bounds, as data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Mode = Literal["off", "control", "smooth", "private"]
"""`control` is a second `off`: the difference between the two is noise of the machine."""

MODES: tuple[Mode, ...] = get_args(Mode)
BOUND_MS = 120
"""`max_delay_ms`: longest delay that the gateway may add to a token; sent with every request."""
END_MS = 50
"""Longest delay of the end of a stream."""
SEED = 7
TEMPERATURE = 0.3


@dataclass(frozen=True, slots=True)
class Gathering:
    """Many streams of 50 tokens a second at once.

    Attributes:
        streams: How many.
        processes: Of the gateway.
        modes: What they are played in, one after the other.
    """

    streams: int
    processes: int
    modes: Sequence[Mode]


THOUSAND = "1000"
"""The gathering of the flat keys; two processes, since one can use only one core."""
_ONE_PROCESS = "1000_one_process"


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of the benchmark.

    Attributes:
        rounds: Times that every mode plays every pattern, the order rotating.
        recorded: By clients at once, how many answers of each kind are recorded.
        recorded_tokens: Most tokens of each of them.
        copies: Made-up patterns of each kind.
        made_up_tokens: Tokens of each.
        repeats: Times that a pattern is played in a round and mode.
        at_once: Concurrent streams, few enough that the machine is mostly idle.
        gatherings: By name; the streams of each last `crowd_seconds`.
        crowd_starts_per_second: How many of them start per second; a hundred is the steady rate
            of a thousand streams of ten seconds each.
        crowd_rounds: Times that all of them are measured.
        prompts: Prompts that the attacker has to recognise.
        runs: Answers to each.
        folds: Parts of the runs; each is tested once, while the others are for training.
        answer_tokens: Most tokens of each answer.
        answer_clients: Clients at once while they are recorded.
        answers_at_once: Streams at once when they are played.
    """

    rounds: int
    recorded: Mapping[int, int]
    recorded_tokens: int
    copies: int
    made_up_tokens: int
    repeats: int
    gatherings: Mapping[str, Gathering]
    crowd_rounds: int
    crowd_seconds: float
    prompts: int
    runs: int
    answer_tokens: int
    at_once: int = 60
    starts_per_second: int = 200
    crowd_copies: int = 20
    crowd_starts_per_second: int = 100
    crowd_rate: int = 50
    answer_clients: int = 8
    answers_at_once: int = 100
    folds: int = 4


FULL = Plan(
    rounds=3,
    recorded={1: 3, 8: 8},
    recorded_tokens=256,
    copies=3,
    made_up_tokens=300,
    repeats=3,
    gatherings={
        "100": Gathering(100, 1, ("off", "smooth", "private")),
        _ONE_PROCESS: Gathering(1_000, 1, ("off", "smooth")),
        THOUSAND: Gathering(1_000, 2, ("off", "smooth", "private")),
    },
    crowd_rounds=2,
    crowd_seconds=20.0,
    prompts=50,
    runs=20,
    answer_tokens=64,
)
QUICK = Plan(
    rounds=1,
    recorded={8: 4},
    recorded_tokens=96,
    copies=1,
    made_up_tokens=100,
    repeats=1,
    gatherings={
        "100": Gathering(100, 1, ("off", "smooth")),
        THOUSAND: Gathering(1_000, 2, ("off", "smooth")),
    },
    crowd_rounds=1,
    crowd_seconds=8.0,
    crowd_starts_per_second=200,
    prompts=10,
    runs=8,
    answer_tokens=32,
)
