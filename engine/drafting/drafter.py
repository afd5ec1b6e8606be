"""One step of drafting: tell the sources what came, ask them, choose, and trim at the price.

Whatever goes wrong in here makes the step plain (docs/ARCHITECTURE.md, "One step").
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.drafting.control import Control
from engine.drafting.counters import Counters
from engine.drafting.origin import NATIVE, PREDICTION, SUFFIX, Origin
from engine.drafting.rows import Beginning, Proposal, Row, StepDrafts
from engine.errors import SuffixCapacityError
from engine.policy import Breaker, PositionAcceptance, Price, worth

_log = logging.getLogger(__name__)

_SUFFIX, _PREDICTION, _NATIVE = Origin(SUFFIX), Origin(PREDICTION), Origin(NATIVE)

_PROBE_STEPS = 64
"""How often vLLM's own drafter is asked although it is not worth it: it may have become so."""


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

    def end(self, request: str, *, keep: bool) -> None:
        """Let a request go; with `keep` what it wrote stays for its tenant."""


class _Request:
    """What is remembered of a running request."""

    __slots__ = ("acceptance", "control", "drafted", "indexed", "native")

    def __init__(self, control: Control, acceptance: PositionAcceptance) -> None:
        self.control = control
        self.indexed = False  # whether the suffix source knows it
        self.drafted = 0  # tokens that are being verified
        self.native: Sequence[int] = ()  # what vLLM's own drafter proposed, used or not
        self.acceptance = acceptance  # of those


class _Live(NamedTuple):
    """A row that got tokens and may draft up to `room` more."""

    at: int
    name: str
    request: _Request
    room: int


class Drafter:
    """Decides, step by step, what each running request drafts.

    Not safe from several threads: a model worker has one step at a time.

    Args:
        suffix: The source that is asked for every row; None leaves vLLM's own drafter alone.
        price: What a draft token has to be worth.
        most: Most tokens of a draft, at least 1.
        native_most: Most tokens that vLLM's own drafter proposes; 0 where there is none.
    """

    def __init__(
        self, suffix: Source | None, price: Price, *, most: int, native_most: int = 0
    ) -> None:
        self.counters = Counters()
        self._suffix = suffix
        self._price = price
        self._most = most
        self._breaker = Breaker()
        self._running: dict[str, _Request] = {}
        self._native_most = native_most
        self._acceptance = PositionAcceptance(native_most)
        self._steps_without_native = 0
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
    ) -> StepDrafts:
        """Draft for the next step.

        Args:
            rows: The requests of the step that has just been sampled.
            begin: Says with what a request begins that is seen for the first time.
            native: What vLLM's own drafter proposes, by row; None where it did not run.

        Never raises: an error makes the step plain, is counted, and is logged once for each cause.
        """
        if not self._breaker.allows():
            self.counters.verdicts["paused"] += 1
            return StepDrafts.nothing(len(rows))
        try:
            drafts = self._step(rows, begin, native)
        except Exception as exc:  # noqa: BLE001  # counted, logged, and never a failed request
            self._fail(exc, rows)
            return StepDrafts.nothing(len(rows))
        self._breaker.succeeded()
        self.counters.paused = False
        return drafts

    def native_tokens(self) -> int:
        """Return how many tokens vLLM's own drafter shall propose in the next step.

        0: none; it then only keeps its own cache in step. Ask once a step.
        """
        floor = self._price.floor(max(1, len(self._running)))
        wanted = not self._running or any(
            request.control.native
            and request.control.most != 0
            and worth(request.acceptance.survival(), floor) > 0
            for request in self._running.values()
        )
        self._steps_without_native = 0 if wanted else self._steps_without_native + 1
        if self._steps_without_native == _PROBE_STEPS:
            self._steps_without_native, wanted = 0, True
        return self._native_most if wanted else 0

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
    ) -> StepDrafts:
        drafts = StepDrafts.nothing(len(rows))
        live = self._take_in(rows, begin)
        proposals = self._ask_suffix(live)
        guesses = {} if native is None else self._judge(live, native)
        pool = [chance for _, proposal in proposals for chance in proposal.survival]
        pool += [chance for guess in guesses.values() for chance in guess]
        if not pool:
            self.counters.verdicts["unknown"] += 1
            return drafts

        price = self.counters.price = self._price.settle(pool, len(live))
        gains: dict[int, float] = {}
        for row, (tokens, survival, followed) in proposals:
            length = _paying(survival, price)
            if length:
                _draft(drafts, row, tokens[:length], _origin(length, followed))
            if guesses:
                gains[row.at] = worth(survival, price)
        if native is not None:
            for row in live:
                guess = guesses.get(row.at, ())
                if worth(guess, price) > gains.get(row.at, 0.0):
                    _draft(drafts, row, native[row.at][: _paying(guess, price)], _NATIVE)
        self.counters.verdicts["drafted" if any(drafts.tokens) else "priced_out"] += 1
        return drafts

    def _take_in(self, rows: Sequence[Row], begin: Callable[[str], Beginning]) -> list[_Live]:
        """Tell the sources what was generated, and the price what the last drafts brought."""
        live: list[_Live] = []
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
            live.append(_Live(at, row.request, request, room))
        self._price.learn(len(live), drafted, emitted)
        return live

    def _begin(self, row: Row, beginning: Beginning) -> _Request:
        acceptance = PositionAcceptance(self._native_most, parent=self._acceptance)
        request = self._running[row.request] = _Request(beginning.control, acceptance)
        if self._suffix is not None:
            try:
                self._suffix.begin(row.request, beginning.control, beginning.tokens)
            except SuffixCapacityError as exc:
                # Running requests use all of the memory: this one has no drafts, others go on.
                self._count(exc)
            else:
                request.indexed = True
                self._suffix.extend(row.request, row.sampled)
        return request

    def _extend(self, request: _Request, row: Row) -> None:
        if request.indexed and self._suffix is not None:
            self._suffix.extend(row.request, row.sampled)
        if request.native:
            known = min(len(request.native), len(row.sampled))
            pairs = zip(request.native[:known], row.sampled[:known], strict=True)
            right = next((at for at, (guess, token) in enumerate(pairs) if guess != token), known)
            request.acceptance.learn(known, right)
            request.native = ()

    def _ask_suffix(self, live: Sequence[_Live]) -> list[tuple[_Live, Proposal]]:
        """Return drafts for the rows that may have one, down to the lowest price."""
        asked = [
            row
            for row in live
            if row.room > 0 and row.request.indexed and row.request.control.suffix
        ]
        if not asked or self._suffix is None:
            return []
        names, most = [row.name for row in asked], [row.room for row in asked]
        floor = self._price.floor(len(live))
        return list(zip(asked, self._suffix.propose(names, most, floor=floor), strict=True))

    def _judge(
        self, live: Sequence[_Live], native: Sequence[Sequence[int]]
    ) -> Mapping[int, Sequence[float]]:
        """Return by row how far what vLLM's own drafter proposes is likely to survive."""
        guesses: dict[int, Sequence[float]] = {}
        for row in live:
            draft = row.request.native = native[row.at][: self._native_most]
            if row.room > 0 and row.request.control.native and draft:
                survival = row.request.acceptance.survival()
                guesses[row.at] = survival[: min(row.room, len(draft))]
        return guesses

    def _fail(self, exc: Exception, rows: Sequence[Row]) -> None:
        """Forget the rows, whose state may be anything now; a later step begins them again."""
        self._count(exc)
        self.counters.verdicts["failed"] += 1
        self.end([row.request for row in rows], keep=False)
        if self._breaker.failed():
            self.counters.paused = True
            # While it is paused nobody tells the sources what is generated.
            self.end(list(self._running), keep=True)
            _log.error("speculation is paused after repeated errors; requests decode plainly")

    def _count(self, exc: Exception) -> None:
        cause = type(exc).__name__
        self.counters.fallbacks[cause] += 1
        if cause not in self._logged:
            self._logged.add(cause)
            _log.error("speculation failed, and its requests decode plainly", exc_info=exc)


def _paying(survival: Sequence[float], price: float) -> int:
    """How many tokens of a draft are worth the price."""
    length = 0
    for chance in survival:
        if chance < price:
            break
        length += 1
    return length


def _draft(drafts: StepDrafts, row: _Live, tokens: Sequence[int], origin: Origin) -> None:
    drafts.tokens[row.at] = list(tokens)
    drafts.origins[row.at] = origin
    row.request.drafted = len(tokens)


def _origin(length: int, followed: int) -> Origin:
    """Whose a draft of the suffix index is, whose first `followed` tokens follow a prediction."""
    if not followed:
        return _SUFFIX
    if followed >= length:
        return _PREDICTION
    return Origin(PREDICTION, SUFFIX, followed)
