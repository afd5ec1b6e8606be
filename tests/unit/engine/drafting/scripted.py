"""A source and a head whose drafts the tests give, and a drafter over them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.drafting import Beginning, Control, Drafter
from engine.policy import Gate, Limits, Profile

FREE: Profile = [(1, 1.0)]  # tokens cost nothing but the least price
DEAR: Profile = [(1, 1.0), (2, 4.0)]
PROMPT = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]


class Proposed(NamedTuple):
    """What a scripted source proposes."""

    tokens: list[int]
    survival: list[float]
    predicted: int = 0


class Scripted:
    """A source whose drafts and errors the test gives; it has no core, so Python is called."""

    core = None

    def __init__(self) -> None:
        self.drafts: dict[str, tuple[list[int], list[float]]] = {}
        self.predicted = 0
        self.errors: dict[str, Exception] = {}
        self.running: dict[str, list[int]] = {}
        self.kept: list[tuple[str, bool]] = []
        self.asked: list[tuple[str, int, float]] = []
        self.more: dict[str, tuple[list[int], list[float]]] = {}
        self.gone_on: list[tuple[str, list[int], float, int]] = []

    def begin(self, request: str, control: Control, tokens: NDArray[np.int32]) -> None:
        self._raise("begin")
        self.running[request] = tokens.tolist()

    def advance(self, request: str, tokens: Sequence[int], most: int, floor: float) -> Proposed:
        self._raise("advance")
        self.running[request] += tokens
        if not most:
            return Proposed([], [])
        self.asked.append((request, most, floor))
        drafted, survival = self.drafts.get(request, ([], []))
        return Proposed(drafted[:most], survival[:most], self.predicted)

    def go_on(
        self, request: str, tokens: Sequence[int], survival: float, most: int, *, floor: float
    ) -> Proposed:
        self.gone_on.append((request, list(tokens), survival, most))
        more, chances = self.more.get(request, ([], []))
        return Proposed(more[:most], [survival * chance for chance in chances[:most]])

    def end(self, request: str, *, keep: bool) -> None:
        self._raise("end")
        del self.running[request]
        self.kept.append((request, keep))

    def _raise(self, call: str) -> None:
        if call in self.errors:
            raise self.errors[call]


def begin(
    control: Control = Control(),  # noqa: B008  # frozen
    *,
    left: int = 10_000,
) -> Callable[[str], Beginning]:
    return lambda _: Beginning(np.array(PROMPT, np.int32), control, left)


def drafter(
    source: Scripted | None,
    cost: Profile = FREE,
    most: int = 8,
    *,
    head_time: float = 1e-9,
    limits: Limits = Limits(min_acceptance_ratio=0.0),  # noqa: B008  # frozen
) -> Drafter:
    return Drafter(
        source,
        Gate(cost, [(1, head_time)], limits=limits),
        most=most,
        native_most=3,
        head_most=3,
    )


class Head:
    """A head whose tokens and confidence the test gives; remembers for which rows it ran."""

    def __init__(self, tokens: Sequence[int] = (7, 8, 9), confidence: float = 0.9) -> None:
        self.tokens = list(tokens)
        self.confidence = confidence
        self.ran: list[list[int]] = []

    def __call__(self, rows: Sequence[int]) -> list[tuple[list[int], list[float]]]:
        self.ran.append(list(rows))
        return [(self.tokens, [self.confidence] * len(self.tokens)) for _ in rows]
