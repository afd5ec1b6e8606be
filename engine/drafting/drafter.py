"""One step of drafting: tell the sources what came, ask them, choose, and trim at the price.

Whatever goes wrong in here makes the step plain (docs/ARCHITECTURE.md, "One step").
"""

import logging
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.drafting.candidate import Candidate, paying
from engine.drafting.control import Control
from engine.drafting.counters import Counters
from engine.drafting.origin import HEAD, NATIVE, PREDICTION, SUFFIX, Origin
from engine.drafting.passes import ForwardDrafter
from engine.drafting.request import LiveRow, Request
from engine.drafting.rows import Beginning, HeadPass, Proposal, Row, StepDrafts
from engine.errors import SuffixCapacityError
from engine.policy import Breaker, Price, worth

_log = logging.getLogger(__name__)

_SUFFIX, _PREDICTION, _NATIVE, _HEAD = (Origin(code) for code in (SUFFIX, PREDICTION, NATIVE, HEAD))

_Choices = dict[int, Candidate]
"""The best draft so far, by row."""


class Source(Protocol):
    """Drafts on the CPU from token ids alone, in microseconds; `SuffixSource` is one."""

    def begin(self, request: str, control: Control, tokens: NDArray[np.int32]) -> None:
        """Take a request in; `tokens` is all it has so far."""

    def extend(self, request: str, tokens: Sequence[int]) -> None:
        """Take in what was generated."""

    def propose(
        self, requests: Sequence[str], most: Sequence[int], *, floor: float
    ) -> Sequence[Proposal]:
        """Draft for each request up to `most` tokens, none with a survival below `floor`."""

    def go_on(
        self, request: str, tokens: Sequence[int], survival: float, most: int, *, floor: float
    ) -> Proposal:
        """Draft up to `most` tokens behind `tokens`, which are all accepted with `survival`."""

    def end(self, request: str, *, keep: bool) -> None:
        """Let a request go; with `keep` what it wrote stays for its tenant."""


class Drafter:
    """Decides, step by step, what each running request drafts.

    Not safe from several threads: a model worker has one step at a time.

    Args:
        suffix: The source that is asked for every row; None where there is none.
        price: What a draft token has to be worth.
        most: Most tokens of a draft, at least 1.
        native_most: Most tokens that vLLM's own drafter proposes; 0 where there is none.
        head_most: Most tokens that the draft head proposes; 0 where there is none.
        head_time: What a pass of the head over so many rows takes, in steps of one token.
    """

    def __init__(
        self,
        suffix: Source | None,
        price: Price,
        *,
        most: int,
        native_most: int = 0,
        head_most: int = 0,
        head_time: Callable[[int], float] = lambda _: 0.0,
    ) -> None:
        self.counters = Counters()
        self._suffix = suffix
        self._price = price
        self._most = most
        self._native = ForwardDrafter(native_most, calibrated=False)
        self._head = ForwardDrafter(head_most, calibrated=True)
        self._head_time = head_time
        self._breaker = Breaker()
        self._running: dict[str, Request] = {}
        self._logged: set[str] = set()

    @property
    def running(self) -> Collection[str]:
        """Requests that something is remembered of."""
        return self._running.keys()

    def step(
        self,
        rows: Sequence[Row],
        begin: Callable[[str], Beginning],
        *,
        native: Sequence[Sequence[int]] | None = None,
        head: HeadPass | None = None,
    ) -> StepDrafts:
        """Draft for the next step.

        Args:
            rows: The requests of the step that has just been sampled.
            begin: Says with what a request begins that is seen for the first time.
            native: What vLLM's own drafter proposes, by row; None where it did not run.
            head: Runs the draft head, if it is worth it; None where there is nothing to run it on.

        Never raises: an error makes the step plain, is counted, and is logged once for each cause.
        """
        if not self._breaker.allows():
            self.counters.verdicts["paused"] += 1
            return StepDrafts.nothing(len(rows))
        try:
            drafts = self._step(rows, begin, native, head)
        except Exception as exc:  # noqa: BLE001  # counted, logged, and never a failed request
            return self.fail(exc, [row.request for row in rows])
        self._breaker.succeeded()
        self.counters.paused = False
        return drafts

    def fail(self, exc: Exception, requests: Sequence[str]) -> StepDrafts:
        """Make a step plain because of an error in it, or in what came before it.

        Args:
            exc: Counted by its class; logged once for each.
            requests: Of the step. Their state may be anything now, so they are forgotten; a later
                step begins them again.
        """
        self._count(exc)
        self.counters.verdicts["failed"] += 1
        self.end(requests, keep=False)
        if self._breaker.failed():
            self.counters.paused = True
            # While it is paused nobody tells the sources what is generated.
            self.end(list(self._running), keep=True)
            _log.error("speculation is paused after repeated errors; requests decode plainly")
        return StepDrafts.nothing(len(requests))

    def native_tokens(self) -> int:
        """Return how many tokens vLLM's own drafter shall propose in the next step.

        0: none; it then only keeps its own cache in step. Ask once a step.
        """
        floor = self._price.floor(max(1, len(self._running)))
        wanted = not self._running or any(
            request.native is not None and worth(request.native.expected(), floor) > 0
            for request in self._running.values()
        )
        return self._native.most if self._native.runs(pays=wanted) else 0

    def end(self, requests: Collection[str], *, keep: bool) -> None:
        """Forget requests that finished, were aborted, or lost their place.

        Args:
            requests: Their ids; unknown ones are ignored.
            keep: Whether what they wrote stays, for later requests of their tenant.
        """
        for name in requests:
            request = self._running.pop(name, None)
            if request is None or not request.indexed or self._suffix is None:
                continue
            try:
                self._suffix.end(name, keep=keep)
            except Exception as exc:  # noqa: BLE001  # as in `step`
                self._count(exc)

    def _step(
        self,
        rows: Sequence[Row],
        begin: Callable[[str], Beginning],
        native: Sequence[Sequence[int]] | None,
        head: HeadPass | None,
    ) -> StepDrafts:
        drafts = StepDrafts.nothing(len(rows))
        live = self._take_in(rows, begin)
        chosen = self._ask_suffix(live)
        if native is not None:
            self._judge_native(live, native, chosen)
        if head is not None:
            self._run_head(live, head, chosen)
        if not chosen:
            self.counters.verdicts["unknown"] += 1
            return drafts

        price = self.counters.price = self._settle(chosen, len(live))
        for row in live:
            if row.at not in chosen:
                continue
            draft = chosen[row.at].cut(price)
            if draft.tokens:
                drafts.tokens[row.at] = list(draft.tokens)
                drafts.origins[row.at] = draft.origin
                row.request.drafted = len(draft.tokens)
        self.counters.verdicts["drafted" if any(drafts.tokens) else "priced_out"] += 1
        return drafts

    def _take_in(self, rows: Sequence[Row], begin: Callable[[str], Beginning]) -> list[LiveRow]:
        """Tell the sources what was generated, and the price what the last drafts brought."""
        live: list[LiveRow] = []
        drafted = emitted = 0
        for at, row in enumerate(rows):
            if not row.sampled:
                continue
            request = self._running.get(row.request)
            if request is None:
                request = self._begin(row, begin(row.request))
            else:
                self._extend(request, row)
            drafted += request.drafted
            emitted += len(row.sampled)
            request.drafted = 0
            most = request.control.most
            room = min(row.room, self._most if most is None else min(most, self._most))
            live.append(LiveRow(at, row.request, request, room))
        self._price.learn(len(live), drafted, emitted)
        return live

    def _begin(self, row: Row, beginning: Beginning) -> Request:
        control = beginning.control
        request = self._running[row.request] = Request(
            control,
            native=self._native.guesser() if control.native and control.most != 0 else None,
            head=self._head.guesser() if control.head and control.most != 0 else None,
        )
        if self._suffix is not None:
            try:
                self._suffix.begin(row.request, control, beginning.tokens)
            except SuffixCapacityError as exc:
                # Running requests use all of the memory: this one has no drafts, others go on.
                self._count(exc)
            else:
                request.indexed = True
                self._suffix.extend(row.request, row.sampled)
        return request

    def _extend(self, request: Request, row: Row) -> None:
        if request.indexed and self._suffix is not None:
            self._suffix.extend(row.request, row.sampled)
        for guesser in (request.native, request.head):
            if guesser is not None:
                guesser.learn(row.sampled)

    def _ask_suffix(self, live: Sequence[LiveRow]) -> _Choices:
        """Return drafts for the rows that may have one, down to the lowest price."""
        asked = [
            row
            for row in live
            if row.room > 0 and row.request.indexed and row.request.control.suffix
        ]
        if not asked or self._suffix is None:
            return {}
        names, most = [row.name for row in asked], [row.room for row in asked]
        floor = self._price.floor(len(live))
        proposals = self._suffix.propose(names, most, floor=floor)
        return {
            row.at: Candidate(tokens, survival, _origin(len(tokens), followed))
            for row, (tokens, survival, followed) in zip(asked, proposals, strict=True)
            if tokens
        }

    def _judge_native(
        self, live: Sequence[LiveRow], native: Sequence[Sequence[int]], chosen: _Choices
    ) -> None:
        """Take what vLLM's own drafter proposes where it is worth more."""
        price = self._settle(chosen, len(live))
        for row in live:
            guesser = row.request.native
            tokens = native[row.at][: self._native.most]
            if guesser is None or not tokens:
                continue
            survival = guesser.propose(tokens)
            room = max(0, row.room)
            _prefer(chosen, row, Candidate(tokens[:room], survival[:room], _NATIVE), price)

    def _run_head(self, live: Sequence[LiveRow], head: HeadPass, chosen: _Choices) -> None:
        """Run the head for the rows where it is likely to bring more than its pass costs."""
        price = self._settle(chosen, len(live))
        able = [row for row in live if row.request.head is not None and row.room > 0]
        gains = {row.at: _expected_gain(row, chosen.get(row.at), price) for row in able}
        wanted = [row for row in able if gains[row.at] > 0]
        cost = self._price.of_time(self._head_time(len(wanted)), len(live))
        if not self._head.runs(pays=sum(gains.values()) > cost) or not able:
            return
        asked = wanted or able
        floor = self._price.floor(len(live))
        guesses = head([row.at for row in asked])
        for row, (tokens, confidence) in zip(asked, guesses, strict=True):
            assert row.request.head is not None
            survival = row.request.head.propose(tokens, confidence)
            draft = Candidate(tokens[: row.room], survival[: row.room], _HEAD)
            _prefer(chosen, row, self._graft(row, draft, floor), price)

    def _graft(self, row: LiveRow, draft: Candidate, floor: float) -> Candidate:
        """Let the suffix index go on where the head ends, or is no longer sure."""
        length = paying(draft.survival, floor)
        if (
            self._suffix is None
            or not length
            or length == row.room
            or not (row.request.indexed and row.request.control.suffix)
        ):
            return draft
        tokens, survival = draft.tokens[:length], draft.survival[:length]
        more = self._suffix.go_on(row.name, tokens, survival[-1], row.room - length, floor=floor)
        if not more.tokens:
            return draft
        return Candidate(
            [*tokens, *more.tokens], [*survival, *more.survival], Origin(HEAD, SUFFIX, length)
        )

    def _settle(self, chosen: _Choices, rows: int) -> float:
        pool = chain.from_iterable(candidate.survival for candidate in chosen.values())
        return self._price.settle(list(pool), rows)

    def _count(self, exc: Exception) -> None:
        cause = type(exc).__name__
        self.counters.fallbacks[cause] += 1
        if cause not in self._logged:
            self._logged.add(cause)
            _log.error("speculation failed, and its requests decode plainly", exc_info=exc)


def _expected_gain(row: LiveRow, already: Candidate | None, price: float) -> float:
    """What the head is likely to bring a row above what the row has; not below 0."""
    assert row.request.head is not None
    expected = worth(row.request.head.expected()[: row.room], price)
    return max(0.0, expected - (0.0 if already is None else already.gain(price)))


def _prefer(chosen: _Choices, row: LiveRow, draft: Candidate, price: float) -> None:
    """Take a draft if it is worth more than what the row has."""
    if draft.tokens and (row.at not in chosen or draft.gain(price) > chosen[row.at].gain(price)):
        chosen[row.at] = draft


def _origin(length: int, followed: int) -> Origin:
    """Whose a draft of the suffix index is, whose first `followed` tokens follow a prediction."""
    if not followed:
        return _SUFFIX
    if followed >= length:
        return _PREDICTION
    return Origin(PREDICTION, SUFFIX, followed)
