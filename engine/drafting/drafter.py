"""One step of drafting: who begins, what the core drafts for all rows, what an error does.

Whatever goes wrong in here makes the step plain (docs/ARCHITECTURE.md, "One step").
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from engine._core.drafting import Batch
from engine.drafting.counters import Counters
from engine.drafting.origin import Origin
from engine.drafting.rows import Beginning, HeadPass, StepDrafts
from engine.drafting.source import Source
from engine.errors import SuffixCapacityError
from engine.policy import Breaker, ForwardDrafter, Gate, Load

_log = logging.getLogger(__name__)

_HEAD_PROBE_STEPS = 16
"""A pass of the head is cheap: it is tried again sooner than others (docs/adr/0014)."""

_ALONE = Load(0)
"""A next step of which nothing is known but its rows."""


class Drafter:
    """Decides, step by step, what each running request drafts.

    Not safe from several threads: a model worker has one step at a time.

    Attributes:
        counters: What was decided.
        gate: As given.

    Args:
        suffix: The source that is asked for every row; None where there is none.
        gate: Says what a draft token has to be worth, and when a pass of the head pays.
        most: Most tokens of a draft, at least 1.
        native_most: Most tokens that vLLM's own drafter proposes; 0 where there is none.
        head_most: Most tokens that the draft head proposes; 0 where there is none.
        fixed_price: Of requests that name none of their own (`Control.price`).
    """

    def __init__(
        self,
        suffix: Source | None,
        gate: Gate,
        *,
        most: int,
        native_most: int = 0,
        head_most: int = 0,
        fixed_price: float | None = None,
    ) -> None:
        self.counters = Counters()
        self._suffix = suffix
        self._most = most
        self._fixed_price = fixed_price
        self.gate = gate
        self._batch = Batch(
            gate,
            None if suffix is None else suffix.core or suffix,
            native=ForwardDrafter(native_most, calibrated=False),
            head=ForwardDrafter(head_most, calibrated=True, probe_steps=_HEAD_PROBE_STEPS),
            origin=Origin,
        )
        self._breaker = Breaker()
        self._is_failing = False
        self._logged: set[str] = set()

    @property
    def running(self) -> Collection[str]:
        """Requests that something is remembered of."""
        return self._batch.running

    @property
    def price(self) -> float:
        """Of the latest step that had guesses."""
        return self._batch.price

    @property
    def is_open(self) -> bool:
        """Whether steps of late drafted by and large, where they could."""
        return self._batch.is_open

    def step(
        self,
        requests: Sequence[str],
        sampled: Sequence[Sequence[int]],
        begin: Callable[[str], Beginning],
        *,
        native: Sequence[Sequence[int]] | None = None,
        head: HeadPass | None = None,
        load: Load = _ALONE,
    ) -> StepDrafts:
        """Draft for the next step.

        Args:
            requests: Ids of the rows of the step that has just been sampled.
            sampled: What each of them got; none while its prompt is still being read.
            begin: Says with what a request begins that is seen for the first time.
            native: What vLLM's own drafter proposes, by row; None where it did not run.
            head: Runs the draft head, if it is worth it; None where there is nothing to run it on.
            load: What else is known of the next step; its rows are those that got tokens now, and
                its context tokens those of requests that got none.

        Never raises: an error makes the step plain, is counted, and is logged once for each cause.
        """
        if self.counters.paused and not self._breaker.allows():
            self.counters.verdicts["paused"] += 1
            return StepDrafts.nothing(len(requests))
        try:
            unknown = self._batch.enter(requests, sampled, load)
            if unknown is not None:
                for name in unknown:
                    self._begin(name, begin(name))
                self._batch.enter(requests, sampled, load)
            drafted = self._batch.draft(native, head)
            tokens, origins, verdict, has_turned, context_tokens = drafted
        except Exception as exc:  # noqa: BLE001  # counted, logged, and never a failed request
            return self.fail(exc, requests)
        self.counters.verdicts[verdict] += 1
        if has_turned:
            self._tell_regime(verdict, len(requests))
        if self._is_failing:
            self._recover()
        return StepDrafts(tokens, origins, context_tokens)

    def fail(self, exc: Exception, requests: Sequence[str]) -> StepDrafts:
        """Make a step plain because of an error in it, or in what came before it.

        Args:
            exc: Counted by its class; logged once for each.
            requests: Of the step. Their state may be anything now, so they are forgotten; a later
                step begins them again.
        """
        self._count(exc)
        self._is_failing = True
        self.counters.verdicts["failed"] += 1
        self.end(requests, keep=False)
        if not self._breaker.is_open and self._breaker.failed():
            self.counters.paused = True
            # While it is paused nobody tells the sources what is generated.
            self.end(self.running, keep=True)
            _log.error("speculation is paused after repeated errors; requests decode plainly")
        return StepDrafts.nothing(len(requests))

    def native_tokens(self) -> int:
        """Return how many tokens vLLM's own drafter shall propose in the next step.

        0: none; it then only keeps its own cache in step. Ask once a step.
        """
        return self._batch.native_tokens()

    def end(self, requests: Collection[str], *, keep: bool) -> None:
        """Forget requests that finished, were aborted, or lost their place.

        Args:
            requests: Their ids; unknown ones are ignored.
            keep: Whether what they wrote stays, for later requests of their tenant.
        """
        for name in requests:
            try:
                if self._batch.end(name) and self._suffix is not None:
                    self._suffix.end(name, keep=keep)
            except Exception as exc:  # noqa: BLE001  # as in `step`
                self._count(exc)

    def _recover(self) -> None:
        self._is_failing = False
        self._breaker.succeeded()
        self.counters.paused = False

    def _tell_regime(self, verdict: str, rows: int) -> None:
        gate = self.gate
        _log.info(
            "the gate is %s: %s; price %.2f at %d requests, %.1f tokens a second expected, "
            "promises kept %.2f",
            "open" if self.is_open else "shut",
            verdict,
            gate.price,
            rows,
            gate.goodput,
            1.0 / gate.promise,
        )

    def _begin(self, name: str, beginning: Beginning) -> None:
        control = beginning.control
        if control.price is None and self._fixed_price is not None:
            control = replace(control, price=self._fixed_price)
        most = self._most if control.most is None else min(control.most, self._most)
        known = len(beginning.tokens)
        self._batch.begin(name, control, most=most, left=beginning.left, known=known)
        if self._suffix is None:
            return
        try:
            self._suffix.begin(name, control, beginning.tokens)
        except SuffixCapacityError as exc:
            # Running requests use all of the memory: this one has no drafts, others go on.
            self._count(exc)
        else:
            self._batch.join(name)

    def _count(self, exc: Exception) -> None:
        cause = type(exc).__name__
        self.counters.fallbacks[cause] += 1
        if cause not in self._logged:
            self._logged.add(cause)
            _log.error("speculation failed, and its requests decode plainly", exc_info=exc)
