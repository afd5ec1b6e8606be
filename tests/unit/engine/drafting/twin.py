"""A step of drafting in plain Python, as it is to be: what engine/drafting/core has to agree with.

The order of a step, the choice between drafts and the price are written out here; acceptance,
confidence, second opinions, the curve of costs and the floor of a source are those of
engine.policy, which has tests of its own.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.drafting.source import Proposal

from engine._core.policy import CostModel, SourceFloor
from engine.drafting import Beginning, Control, HeadPass, Source, StepDrafts, SuffixSource
from engine.drafting.origin import HEAD, NATIVE, PREDICTION, SUFFIX, Origin
from engine.policy import HEAD as BY_HEAD
from engine.policy import NATIVE as BY_NATIVE
from engine.policy import SUFFIX as BY_SUFFIX
from engine.policy import ForwardDrafter, Guesser, Load, Pace, Profile, paying, worth


class TwinGate:
    """`engine.policy.Gate`, by its formulas."""

    def __init__(self, steps: Profile, passes: Profile) -> None:
        self.steps, self.passes = CostModel(steps, longest=400), CostModel(passes, longest=400)
        self.floors = {source: SourceFloor(0.4) for source in (BY_SUFFIX, BY_HEAD, BY_NATIVE)}
        self.length, self.drafted = 1.0, 0.0
        self.promised, self.kept = 0.0, 0.0
        self.idle, self.price = 0, 0.0
        self.load, self.probing = Load(0), False
        self.most_idle = 4

    def learn(
        self,
        rows: int,
        by_source: dict[int, list[int]],
        tokens: tuple[int, int],
        promised: float,
        load: Load,
        context: int,
    ) -> None:
        drafted, emitted = tokens
        if rows:
            share = 1.0 - math.exp(-rows / 256.0)
            self.length += share * (emitted / rows - self.length)
            self.drafted += share * (drafted / rows - self.drafted)
            keep = math.exp(-drafted / 1024)
            self.promised = keep * self.promised + promised
            self.kept = keep * self.kept + emitted - rows
            if self.probing and drafted:
                self.most_idle = min(2 * self.most_idle, 256)
            self.idle = 0 if drafted else self.idle + 1
        for source, (judged, accepted) in by_source.items():
            if judged:
                if self.price >= 0.1 or accepted >= 0.4 * judged:
                    self.floors[source].learn(judged, accepted)
            else:
                self.floors[source].wait()
        self.load = Load(rows, load.prefill_tokens, context, load.waiting)
        self.probing = self.idle >= self.most_idle
        if self.probing:
            self.idle = 0

    def dear(self) -> float:
        return self.worth() * min(2.0, max(0.8, (self.promised + 128) / (self.kept + 128)))

    def worth(self) -> float:
        rows = self.load.rows
        time = self.steps.time(rows * (1.0 + self.drafted), self.load.context_tokens)
        return self.length / time * (rows + self.load.waiting)

    def floor(self) -> float:
        if self.load.rows == 0:
            return 1.0
        if self.probing:
            return 0.01
        return min(1.0, max(0.01, self.dear() * self.steps.curve.cheapest(*self.reached())))

    def reached(self) -> tuple[int, int]:
        return self.load.rows + self.load.prefill_tokens, 32 * self.load.rows

    def settle(self, drafts: Sequence[Sequence[float]]) -> float:
        if self.load.rows == 0:
            self.price = 2.0
            return self.price
        tokens, reach = self.reached()
        settled, _ = self.steps.curve.settle(
            drafts,
            tokens,
            worth=0.0 if self.probing else self.dear(),
            least=self.floor(),
            reach=reach,
            most=max(2, self.load.rows // 2) if self.probing else None,
        )
        self.price = self.floor() if settled is None else settled
        return self.price

    def cost_of_pass(self, rows: int) -> float:
        return self.worth() * self.passes.time(max(rows, 1)) if self.load.rows else 0.0

    def count(self, pace: Pace) -> float:
        return pace.count(self.length)

    def least(self, source: int) -> float:
        return self.floors[source].least


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
    promised: float = 0.0
    origin: Origin = Origin(SUFFIX)  # noqa: RUF009  # never changed
    pace: Pace = field(default_factory=Pace)
    count: float = 1.0
    at: int = 0
    room: int = 0
    tokens: int = 0
    sampled: list[int] = field(default_factory=list)
    best: Candidate | None = None

    @property
    def is_of_source(self) -> bool:
        return self.best is not None and self.best.origin.first in (SUFFIX, PREDICTION)

    def counted(self) -> list[float]:
        if self.best is None:
            return []
        count = self.count if self.beginning.control.price is None else 1.0
        return [chance * count for chance in self.best.survival]

    def prefer(self, draft: Candidate, price: float) -> None:
        if draft.tokens and (self.best is None or draft.gain(price) > self.best.gain(price)):
            self.best = draft


class Twin:
    """`engine.drafting.Drafter` without counters and errors.

    Attributes:
        price: Of the latest step.
    """

    def __init__(
        self,
        source: Source,
        steps: Profile,
        passes: Profile,
        *,
        most: int,
        native_most: int,
        head_most: int,
    ) -> None:
        self._source = source
        self._gate = TwinGate(steps, passes)
        self._most = most
        self._native = ForwardDrafter(native_most, calibrated=False)
        self._head = ForwardDrafter(head_most, calibrated=True, probe_steps=16)
        self._running: dict[str, Request] = {}
        self._context = 0

    @property
    def price(self) -> float:
        return self._gate.price

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
        load: Load = Load(0),  # noqa: B008  # never changed
    ) -> StepDrafts:
        rows = self._take_in(names, sampled, begin, load)
        price = self._choose(rows, native, head)
        drafts = StepDrafts.nothing(len(names))
        drafts.context_tokens = self._context
        for row in rows:
            if row.best is None:
                continue
            own = row.beginning.control.price
            least = price if own is None else own
            row.drafted = length = paying(row.counted(), least)
            row.promised = sum(row.best.survival[:length])
            row.origin = row.best.origin
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
        load: Load,
    ) -> list[Request]:
        rows = []
        counts = {source: [0, 0] for source in (BY_SUFFIX, BY_HEAD, BY_NATIVE)}
        drafted = emitted = 0
        promised = 0.0
        for at, (name, tokens) in enumerate(zip(names, sampled, strict=True)):
            if not tokens:
                continue
            if name not in self._running:
                self._begin(name, begin(name))
            row = self._running[name]
            for guesser in (row.native, row.head):
                if guesser is not None:
                    guesser.learn(tokens)
            kept = min(row.drafted, len(tokens) - 1)
            drafted += row.drafted
            if row.beginning.control.price is None:
                _count(counts, row, kept)
                promised += row.promised if row.drafted else 0.0
            else:
                promised += kept
            emitted += len(tokens)
            row.pace.learn(len(tokens))
            row.left -= len(tokens)
            row.tokens += len(tokens)
            row.at, row.sampled, row.best, row.drafted = at, list(tokens), None, 0
            row.room = max(0, min(row.left - 1, row.most))
            rows.append(row)
        self._context = load.context_tokens + sum(row.tokens for row in rows)
        self._gate.learn(len(rows), counts, (drafted, emitted), promised, load, self._context)
        for row in rows:
            row.count = self._gate.count(row.pace)
        return rows

    def _begin(self, name: str, beginning: Beginning) -> None:
        control = beginning.control
        most = self._most if control.most is None else min(control.most, self._most)
        self._running[name] = Request(
            name,
            beginning,
            most,
            beginning.left,
            _guesser(self._native, control, most) if control.native else None,
            _guesser(self._head, control, most) if control.head else None,
            tokens=len(beginning.tokens),
        )
        self._source.begin(name, control, beginning.tokens)

    def _proposals(self, rows: Sequence[Request], floor: float) -> list[Proposal | None]:
        most = [row.room if row.beginning.control.suffix else 0 for row in rows]
        if not isinstance(self._source, SuffixSource) or self._source.core is None:
            return [
                self._source.advance(row.name, row.sampled, most[at], floor)
                for at, row in enumerate(rows)
            ]
        # An index takes all rows in before it drafts for any.
        index = self._source.index
        for row in rows:
            index.extend(row.name, row.sampled)
        return [
            index.propose(row.name, most[at], min_survival=floor) if most[at] else None
            for at, row in enumerate(rows)
        ]

    def _choose(
        self,
        rows: list[Request],
        native: Sequence[Sequence[int]] | None,
        head: HeadPass | None,
    ) -> float:
        floor = min([1.0, *(_price_of(row, self._gate.floor()) for row in rows)])
        least = max(floor, self._gate.least(BY_SUFFIX))
        for row, draft in zip(rows, self._proposals(rows, min(least, 1.0)), strict=True):
            if draft is not None and draft.tokens and least <= 1.0:
                origin = _followed(len(draft.tokens), draft.predicted)
                row.best = Candidate(draft.tokens, draft.survival, origin)
        price = self._settle(rows)
        if native is not None:
            for row in rows:
                tokens = list(native[row.at][: self._native.most])
                if row.native is not None and tokens:
                    survival = row.native.propose(tokens)
                    most = min(row.room, paying(survival, self._gate.least(BY_NATIVE)))
                    offered = Candidate(tokens[:most], survival[:most], Origin(NATIVE))
                    row.prefer(offered, _price_of(row, price))
            price = self._settle(rows)
        if head is not None and self._run_head(rows, head, price, floor):
            price = self._settle(rows)
        return price

    def _settle(self, rows: list[Request]) -> float:
        return self._gate.settle(
            [
                row.counted()
                for row in rows
                if row.best is not None and row.beginning.control.price is None
            ]
        )

    def _run_head(self, rows: list[Request], head: HeadPass, price: float, floor: float) -> bool:
        able = [row for row in rows if row.head is not None and row.room]
        chosen = [row for row in able if row.beginning.control.price is not None]
        gains = {row.at: self._gain_of_head(row, price, floor) * row.count for row in able}
        wanted = sorted(
            (row for row in able if row not in chosen and gains[row.at] > 0.0),
            key=lambda row: -gains[row.at],
        )
        lesson = 0.4 * gains[wanted[0].at] if wanted and wanted[0].is_of_source else 0.0
        nets = [
            (lesson + sum(gains[row.at] for row in wanted[:count]) if count else 0.0)
            - (self._gate.cost_of_pass(len(chosen) + count) if chosen or count else 0.0)
            for count in range(len(wanted) + 1)
        ]
        chosen += wanted[: nets.index(max(nets))]
        if not self._head.runs(pays=bool(chosen)) or not able:
            return False
        asked = chosen or [able[at] for at in self._head.trial(len(able))]
        asked.sort(key=lambda row: row.at)
        for row, (tokens, confidence) in zip(asked, head([row.at for row in asked]), strict=True):
            self._offer_head(row, list(tokens), confidence, price, floor)
        return True

    def _gain_of_head(self, row: Request, price: float, floor: float) -> float:
        assert row.head is not None
        dear = _price_of(row, price)
        gain = row.head.expected_gain(row.room, max(dear, floor, self._gate.least(BY_HEAD)))
        if row.best is None:
            return gain
        gain = max(0.0, gain - row.best.gain(dear))
        if row.is_of_source:
            gain = max(gain, row.head.expected_gain_beside(row.best.survival[0]))
        return gain

    def _offer_head(
        self,
        row: Request,
        tokens: list[int],
        confidence: Sequence[float],
        price: float,
        floor: float,
    ) -> None:
        assert row.head is not None
        dear = _price_of(row, price)
        survival = row.head.propose(tokens, confidence)
        if not row.is_of_source:
            row.prefer(self._head_draft(row, tokens, survival, (floor, dear)), dear)
            return
        assert row.best is not None
        first, bought = row.best.survival[0], paying(row.best.survival, dear)
        row.best.survival, survival = row.head.weigh(row.best.tokens, row.best.survival)
        without = sum(chance - dear for chance in row.best.survival[:bought])
        sure = paying(survival, max(floor, self._gate.least(BY_HEAD)))
        known = row.best.tokens[: len(row.best.survival)]
        if known[:sure] != tokens[:sure]:
            row.prefer(self._head_draft(row, tokens, survival, (floor, dear)), dear)
        if row.beginning.control.price is None:
            row.head.brought(first, row.best.gain(dear) - without)

    def _head_draft(
        self, row: Request, tokens: list[int], survival: list[float], prices: tuple[float, float]
    ) -> Candidate:
        floor, dear = prices
        length = paying(survival, max(floor, self._gate.least(BY_HEAD)))
        least = max(floor, self._gate.least(BY_SUFFIX))
        reached = survival[length - 1] if length else 0.0
        may_go_on = row.beginning.control.suffix and least <= 1.0 and reached >= dear
        if 0 < length < row.room and may_go_on:
            sure = tokens[:length]
            more = self._source.go_on(row.name, sure, reached, row.room - length, floor=least)
            if more.tokens:
                origin = Origin(HEAD, SUFFIX, length)
                return Candidate(sure + more.tokens, [*survival[:length], *more.survival], origin)
        most = min(row.room, paying(survival, self._gate.least(BY_HEAD)))
        return Candidate(tokens[:most], survival[:most], Origin(HEAD))


def _price_of(row: Request, price: float) -> float:
    own = row.beginning.control.price
    return price / row.count if own is None else own


def _count(counts: dict[int, list[int]], row: Request, accepted: int) -> None:
    """What came of a draft, for those whose it was: judged and accepted."""
    by = {SUFFIX: BY_SUFFIX, PREDICTION: BY_SUFFIX, HEAD: BY_HEAD, NATIVE: BY_NATIVE}
    origin, left = row.origin, min(row.drafted, accepted)
    first = min(row.drafted, origin.first_length) if origin.second else row.drafted
    for source, length in ((origin.first, first), (origin.second, row.drafted - first)):
        if length:
            count = counts[by[source]]
            if source == origin.first or accepted >= first:
                count[0] += length
                count[1] += min(length, left)
            left -= min(length, left)


def _followed(length: int, followed: int) -> Origin:
    if not followed:
        return Origin(SUFFIX)
    return Origin(PREDICTION) if followed >= length else Origin(PREDICTION, SUFFIX, followed)


def _guesser(drafter: ForwardDrafter, control: Control, most: int) -> Guesser | None:
    return drafter.guesser(control.temperature) if most and drafter.most else None
