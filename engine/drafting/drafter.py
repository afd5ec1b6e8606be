"""One step of drafting: tell the sources what came, ask them, choose, and trim at the price.

Whatever goes wrong in here makes the step plain (docs/ARCHITECTURE.md, "One step").
"""

import logging
from collections.abc import Callable, Collection, Sequence

from engine.drafting.choice import Choice
from engine.drafting.counters import Counters
from engine.drafting.passes import ForwardDrafter
from engine.drafting.request import Request
from engine.drafting.rows import Beginning, HeadPass, Row, StepDrafts
from engine.drafting.source import Source
from engine.errors import SuffixCapacityError
from engine.policy import Breaker, Price

_log = logging.getLogger(__name__)

_HEAD_PROBE_STEPS = 16
"""A pass of the head is cheap: it is tried again sooner than others (docs/adr/0014)."""


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
        self._head = ForwardDrafter(head_most, calibrated=True, probe_steps=_HEAD_PROBE_STEPS)
        self._choice = Choice(price, native=self._native, head=self._head, head_time=head_time)
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
        if not self._breaker.is_open and self._breaker.failed():
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
            request.native is not None
            and request.native.expected_gain(self._native.most, floor) > 0
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
            if request is None or request.suffix is None:
                continue
            try:
                request.suffix.end(name, keep=keep)
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
        price = self._choice.make(live, native=native, head=head)
        chosen = [row for row in live if row.best is not None]
        if not chosen:
            self.counters.verdicts["unknown"] += 1
            return drafts

        self.counters.price = price
        for row in chosen:
            assert row.best is not None
            tokens, origin = row.best.cut(price)
            if tokens:
                drafts.tokens[row.at] = tokens
                drafts.origins[row.at] = origin
                row.drafted = len(tokens)
        self.counters.verdicts["drafted" if any(drafts.tokens) else "priced_out"] += 1
        return drafts

    def _take_in(self, rows: Sequence[Row], begin: Callable[[str], Beginning]) -> list[Request]:
        """Tell all but the index what was generated, and the price what the last drafts brought."""
        live: list[Request] = []
        drafted = emitted = 0
        for at, (name, sampled, room) in enumerate(rows):
            if not sampled:
                continue
            request = self._running.get(name)
            if request is None:
                request = self._begin(name, begin(name))
            if request.native is not None:
                request.native.learn(sampled)
            if request.head is not None:
                request.head.learn(sampled)
            drafted += request.drafted
            emitted += len(sampled)
            request.enter_step(at, sampled, room)
            live.append(request)
        self._price.learn(len(live), drafted, emitted)
        return live

    def _begin(self, name: str, beginning: Beginning) -> Request:
        control = beginning.control
        most = self._most if control.most is None else min(control.most, self._most)
        request = self._running[name] = Request(
            name,
            control,
            most=most,
            native=self._native.guesser(wanted=control.native and most > 0),
            head=self._head.guesser(wanted=control.head and most > 0),
        )
        if self._suffix is not None:
            try:
                self._suffix.begin(name, control, beginning.tokens)
            except SuffixCapacityError as exc:
                # Running requests use all of the memory: this one has no drafts, others go on.
                self._count(exc)
            else:
                request.suffix = self._suffix
        return request

    def _count(self, exc: Exception) -> None:
        cause = type(exc).__name__
        self.counters.fallbacks[cause] += 1
        if cause not in self._logged:
            self._logged.add(cause)
            _log.error("speculation failed, and its requests decode plainly", exc_info=exc)
