"""A step of drafting in plain Python, as it is to be: what engine/drafting/core has to agree with.

The order of a step, the choice between drafts and the price are written out here; acceptance,
confidence and the settling of the price are those of engine.policy, which has tests of its own.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.drafting import Beginning, HeadPass, Source, StepDrafts
from engine.drafting.origin import HEAD, NATIVE, PREDICTION, SUFFIX, Origin
from engine.policy import ForwardDrafter, StepCost
from engine.policy._core import Guesser, paying, worth


class TwinPrice:
    """`engine.policy.Price`, by its formula."""

    def __init__(self, cost: StepCost, *, margin: float = 1.5, least: float = 0.01) -> None:
        self.cost, self.margin, self.least = cost, margin, least
        self.length, self.drafted = 1.0, 0.0

    def learn(self, rows: int, drafted: int, emitted: int) -> None:
        if rows:
            keep = math.exp(-rows / 24.0)
            self.length += (1.0 - keep) * (emitted / rows - self.length)
            self.drafted += (1.0 - keep) * (drafted / rows - self.drafted)

    def goodput(self, rows: int) -> float:
        return rows * self.length / self.cost.time(round(rows * (1.0 + self.drafted)))

    def floor(self, rows: int) -> float:
        if rows == 0:
            return 1.0
        price = self.margin * self.goodput(rows) * self.cost.marginal(rows)
        return min(1.0, max(self.least, price))

    def settle(self, drafts: Sequence[Sequence[float]], rows: int) -> float:
        price = self.cost.settle(drafts, rows, self.margin * self.goodput(rows))
        return self.floor(rows) if price is None else max(self.least, price)


@dataclass
class Candidate:
    """A draft that a row could have."""

    tokens: list[int]
    survival: list[float]
    origin: Origin

    def gain(self, price: float) -> float:
        return worth(self.survival, price)


@dataclass
class Request:
    """A running request, and its row in the present step."""

    name: str
    beginning: Beginning
    most: int
    left: int
    native: Guesser | None
    head: Guesser | None
    drafted: int = 0
    at: int = 0
    room: int = 0
    sampled: list[int] = field(default_factory=list)
    best: Candidate | None = None

    def prefer(self, draft: Candidate, price: float) -> None:
        if draft.tokens and (self.best is None or draft.gain(price) > self.best.gain(price)):
            self.best = draft


class Twin:
    """`engine.drafting.Drafter` without counters and errors.

    Attributes:
        price: Of the latest step that had drafts.
    """

    def __init__(
        self,
        source: Source,
        cost: StepCost,
        *,
        most: int,
        native_most: int,
        head_most: int,
        head_time: Callable[[int], float],
    ) -> None:
        self.price = 0.0
        self._source = source
        self._price = TwinPrice(cost)
        self._most = most
        self._native = ForwardDrafter(native_most, calibrated=False)
        self._head = ForwardDrafter(head_most, calibrated=True, probe_steps=16)
        self._head_time = head_time
        self._running: dict[str, Request] = {}

    def end(self, names: Sequence[str], *, keep: bool) -> None:
        for name in names:
            if self._running.pop(name, None):
                self._source.end(name, keep=keep)

    def step(
        self,
        names: Sequence[str],
        sampled: Sequence[Sequence[int]],
        begin: Callable[[str], Beginning],
        *,
        native: Sequence[Sequence[int]] | None = None,
        head: HeadPass | None = None,
    ) -> StepDrafts:
        rows = self._take_in(names, sampled, begin)
        price = self._choose(rows, native, head)
        drafts = StepDrafts.nothing(len(names))
        for row in rows:
            if row.best is None:
                continue
            self.price = price
            row.drafted = length = paying(row.best.survival, price)
            if length:
                origin = row.best.origin
                if origin.second and length <= origin.first_length:
                    origin = Origin(origin.first)
                drafts.tokens[row.at] = row.best.tokens[:length]
                drafts.origins[row.at] = origin
        return drafts

    def _take_in(
        self,
        names: Sequence[str],
        sampled: Sequence[Sequence[int]],
        begin: Callable[[str], Beginning],
    ) -> list[Request]:
        rows = []
        drafted = emitted = 0
        for at, (name, tokens) in enumerate(zip(names, sampled, strict=True)):
            if not tokens:
                continue
            if name not in self._running:
                self._begin(name, begin(name))
            row = self._running[name]
            for guesser in (row.native, row.head):
                if guesser is not None:
                    guesser.learn(tokens)
            drafted += row.drafted
            emitted += len(tokens)
            row.left -= len(tokens)
            row.at, row.sampled, row.best, row.drafted = at, list(tokens), None, 0
            row.room = max(0, min(row.left - 1, row.most))
            rows.append(row)
        self._price.learn(len(rows), drafted, emitted)
        return rows

    def _begin(self, name: str, beginning: Beginning) -> None:
        control = beginning.control
        most = self._most if control.most is None else min(control.most, self._most)
        self._running[name] = Request(
            name,
            beginning,
            most,
            beginning.left,
            self._native.guesser() if control.native and most and self._native.most else None,
            self._head.guesser() if control.head and most and self._head.most else None,
        )
        self._source.begin(name, control, beginning.tokens)

    def _choose(
        self,
        rows: list[Request],
        native: Sequence[Sequence[int]] | None,
        head: HeadPass | None,
    ) -> float:
        floor = self._price.floor(len(rows))
        for row in rows:
            most = row.room if row.beginning.control.suffix else 0
            draft = self._source.advance(row.name, row.sampled, most, floor)
            if draft.tokens:
                origin = _followed(len(draft.tokens), draft.predicted)
                row.best = Candidate(draft.tokens, draft.survival, origin)
        price = self._settle(rows)
        if native is not None:
            for row in rows:
                tokens = list(native[row.at][: self._native.most])
                if row.native is not None and tokens:
                    survival = row.native.propose(tokens)[: row.room]
                    row.prefer(Candidate(tokens[: row.room], survival, Origin(NATIVE)), price)
            price = self._settle(rows)
        if head is not None and self._run_head(rows, head, price, floor):
            price = self._settle(rows)
        return price

    def _settle(self, rows: list[Request]) -> float:
        drafts = [row.best.survival for row in rows if row.best is not None]
        return self._price.settle(drafts, len(rows))

    def _run_head(self, rows: list[Request], head: HeadPass, price: float, floor: float) -> bool:
        able = [row for row in rows if row.head is not None and row.room]
        gains: dict[str, float] = {}
        total = 0.0
        for row in able:
            assert row.head is not None
            gain = row.head.expected_gain(row.room, price)
            if row.best is not None and gain:
                gain = max(0.0, gain - row.best.gain(price))
            gains[row.name] = gain
            total += gain
        wanted = [row for row in able if gains[row.name]]
        cost = self._price.goodput(len(rows)) * self._head_time(len(wanted))
        if not self._head.runs(pays=total > cost) or not able:
            return False
        asked = wanted or able
        guesses = head([row.at for row in asked])
        for row, (tokens, confidence) in zip(asked, guesses, strict=True):
            assert row.head is not None
            survival = row.head.propose(tokens, confidence)
            row.prefer(self._head_draft(row, list(tokens), survival, floor), price)
        return True

    def _head_draft(
        self, row: Request, tokens: list[int], survival: list[float], floor: float
    ) -> Candidate:
        length = paying(survival, floor)
        if 0 < length < row.room and row.beginning.control.suffix:
            sure, reached = tokens[:length], survival[length - 1]
            more = self._source.go_on(row.name, sure, reached, row.room - length, floor=floor)
            if more.tokens:
                origin = Origin(HEAD, SUFFIX, length)
                return Candidate(sure + more.tokens, [*survival[:length], *more.survival], origin)
        return Candidate(tokens[: row.room], survival[: row.room], Origin(HEAD))


def _followed(length: int, followed: int) -> Origin:
    if not followed:
        return Origin(SUFFIX)
    return Origin(PREDICTION) if followed >= length else Origin(PREDICTION, SUFFIX, followed)
