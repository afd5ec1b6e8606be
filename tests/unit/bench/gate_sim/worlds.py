"""Small worlds to run rules in, single steps to ask them about, and records to judge."""

from dataclasses import replace

import numpy as np

from bench.gate_sim.processes import Mode, Process
from engine.simulation.course import Course, Stage, course_of
from engine.simulation.curve import MOST_SEQUENCES, MOST_TOKENS, Curve
from engine.simulation.engine import Record, World
from engine.simulation.rule import Decision, Outcome, View
from engine.simulation.schedules import Scheduled, Source, fixed
from engine.simulation.texts import HEAD, Offers, build_library

SURE = Process(
    "sure",
    Mode(offered=1.0, suffix=0.9, head=(0.8, 0.7, 0.6)),
    answer_tokens=60.0,
    prompt_tokens=20.0,
)
HOPELESS = replace(SURE, name="hopeless", write=Mode(offered=1.0, suffix=0.02, head=(0.02,) * 3))


def curve_of(
    *, a_token: float, base: float = 1.0, head: float = 0.01, verify: float = 0.0
) -> Curve:
    """A step takes `base`, and `a_token` for each token, in seconds."""
    tokens = np.arange(MOST_TOKENS + 1)
    step = np.broadcast_to(base + a_token * tokens, (MOST_SEQUENCES + 1, MOST_TOKENS + 1))
    zero = np.zeros(MOST_SEQUENCES + 1)
    return Curve("straight", step, 0.0, np.full(MOST_SEQUENCES + 1, head), zero + verify)


def world_of(
    curve: Curve, *phases: Process, seats: int = 4, tokens: int = 60, course: Course | None = None
) -> World:
    """Two seeds of 64 answers."""
    kinds = phases or (SURE,)
    library = build_library([[kind.write_texts(64, seed) for kind in kinds] for seed in range(2)])
    return World(curve, library, course or course_of([Stage(tokens, seats)]))


def view_of(*, offered: list[int], stated: list[float], room: int = 32) -> View:
    """One lane whose sequences have these suffix drafts, each token stated alike."""
    sequences = len(offered)
    suffix = np.array([[chance] * 32 for chance in stated])
    return View(
        stage=np.array([0]),
        decoding=np.ones((1, sequences), dtype=np.bool_),
        positions=np.arange(sequences)[None, :],
        room=np.full((1, sequences), room),
        requests=np.arange(sequences)[None, :],
        prefilling=np.zeros((1, sequences), dtype=np.bool_),
        prompt_tokens=np.array([0]),
        unread_sequences=np.array([0]),
        unread_tokens=np.array([0]),
        context=np.array([0]),
        waiting=np.array([0]),
        offers=Offers(np.array(offered), suffix, np.full((sequences, HEAD), 0.5)),
        now=np.arange(sequences)[None, :],
        ahead=np.array([False]),
        skip=np.zeros((1, sequences), dtype=np.int64),
    )


def record_of(speeds: list[float]) -> Record:
    """A step of one token in each lane, at these speeds."""
    seconds = 1.0 / np.array([speeds])
    none = np.zeros((1, len(speeds)), dtype=np.int64)
    return Record(none, np.ones_like(seconds), seconds, seconds, none, none, none)


class Eager:
    """A rule under test that drafts four tokens wherever it can, and takes 7 us."""

    def __init__(self, world: World, lanes: int, source: Source) -> None:
        self.spent_ns: list[int] = []
        self.sequences: list[int] = []
        self._rule = Scheduled([fixed(4, source)] * lanes)

    def decide(self, view: View) -> Decision:
        sequences = view.decoding.sum(1).tolist()
        self.sequences += sequences
        self.spent_ns += [7_000] * len(sequences)
        return self._rule.decide(view)

    def observe(self, view: View, decision: Decision, outcome: Outcome) -> None:
        pass
