"""A step of drafting: begins new requests, drafts for all sequences, and handles errors.

Any error makes the step decode without drafts (docs/ARCHITECTURE.md, "One step").
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from engine._core.drafting import Batch
from engine.drafting.counters import Counters
from engine.drafting.origin import Origin
from engine.drafting.step import Beginning, HeadPass, StepDrafts
from engine.drafting.suffix_source import SuffixSource
from engine.errors import SuffixCapacityError
from engine.policy import Breaker, ForwardDrafter, Gate, Load

_log = logging.getLogger(__name__)

_HEAD_PROBE_STEPS = 16
"""A pass of the head is cheap, so it is retried sooner than other drafters (docs/adr/0014)."""

_NOTHING_KNOWN = Load(0)
"""Of a next step of which only the sequences are known."""


class Drafter:
    """Decides in each step what every running request drafts.

    Not thread-safe: a model worker runs one step at a time.

    Attributes:
        counters: Decisions and errors.
        gate: As given.

    Args:
        suffix: The suffix index; None if there is none.
        gate: Sets the price of draft tokens, and says when a pass of the head pays.
        most: Longest draft, in tokens, at least 1.
        native_most: Most tokens that vLLM's own drafter proposes; 0 if there is none.
        head_most: Most tokens that the draft head proposes; 0 if there is none.
        fixed_price: For requests without a price of their own (`Control.price`); None: the gate's.
    """

    def __init__(
        self,
        suffix: SuffixSource | None,
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
            None if suffix is None else suffix.index.core,
            native=ForwardDrafter(native_most, calibrated=False),
            head=ForwardDrafter(head_most, calibrated=True, probe_steps=_HEAD_PROBE_STEPS),
            origin=Origin,
        )
        self._breaker = Breaker()
        self._is_failing = False
        self._logged: set[str] = set()

    @property
    def running(self) -> Collection[str]:
        """Ids of the requests that have begun and not ended."""
        return self._batch.running

    @property
    def price(self) -> float:
        """The price of the latest step that had proposals."""
        return self._batch.price

    @property
    def is_open(self) -> bool:
        """Whether recent steps drafted on average, where they could."""
        return self._batch.is_open

    def step(
        self,
        requests: Sequence[str],
        sampled: Sequence[Sequence[int]],
        begin: Callable[[str], Beginning],
        *,
        native: Sequence[Sequence[int]] | None = None,
        head: HeadPass | None = None,
        load: Load = _NOTHING_KNOWN,
    ) -> StepDrafts:
        """Draft for the next step.

        Args:
            requests: Ids of the sequences of the step that was just sampled.
            sampled: New tokens of each; empty while its prompt is still being read.
            begin: Returns how a new request begins.
            native: Proposals of vLLM's own drafter by sequence; None if it did not run.
            head: Runs the draft head if that pays; None if it cannot run in this step.
            load: What else is known of the next step. Its sequences are those that got tokens now;
                its context tokens are those of the requests that got none.

        Never raises. An error empties the drafts, is counted, and is logged once per class.
        """
        if self.counters.paused and not self._breaker.allows():
            self.counters.decisions["paused"] += 1
            return StepDrafts.nothing(len(requests))
        try:
            unknown = self._batch.enter(requests, sampled, load)
            if unknown is not None:
                for name in unknown:
                    self._begin(name, begin(name))
                self._batch.enter(requests, sampled, load)
            drafted = self._batch.draft(native, head)
            tokens, origins, decision, has_changed, context_tokens = drafted
        except Exception as exc:  # noqa: BLE001  # counted, logged, and never a failed request
            return self.fail(exc, requests)
        self.counters.decisions[decision] += 1
        if has_changed:
            self._log_state(decision, len(requests))
        if self._is_failing:
            self._recover()
        return StepDrafts(tokens, origins, context_tokens)

    def fail(self, exc: Exception, requests: Sequence[str]) -> StepDrafts:
        """Give up the drafts of a step because of an error in it, or in what came before it.

        Args:
            exc: Counted by its class, and logged once per class.
            requests: Of the step. Their state is undefined, so they are forgotten; a later step
                begins them again.
        """
        self._count(exc)
        self._is_failing = True
        self.counters.decisions["failed"] += 1
        self.end(requests, keep=False)
        if not self._breaker.is_open and self._breaker.failed():
            self.counters.paused = True
            # During the pause the sources are not told what is generated.
            self.end(self.running, keep=True)
            _log.error(
                "speculation is paused after repeated errors; requests decode without drafts"
            )
        return StepDrafts.nothing(len(requests))

    def native_tokens(self) -> int:
        """Return how many tokens vLLM's own drafter is to propose in the next step.

        With 0 it only keeps its own KV cache up to date. Call once per step.
        """
        return self._batch.native_tokens()

    def end(self, requests: Collection[str], *, keep: bool) -> None:
        """Forget requests that finished, were aborted or preempted.

        Args:
            requests: Their ids; unknown ones are ignored.
            keep: Whether to keep what they wrote for later requests of their tenant.
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

    def _log_state(self, decision: str, sequences: int) -> None:
        gate = self.gate
        _log.info(
            "the gate is %s: %s; price %.2f with %d requests, %.1f tokens per second expected, "
            "expected over accepted draft tokens %.2f",
            "open" if self.is_open else "shut",
            decision,
            gate.price,
            sequences,
            gate.goodput,
            gate.expected_over_accepted,
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
            # Running requests use all of the memory: this one gets no drafts of the index.
            self._count(exc)
        else:
            self._batch.join(name)

    def _count(self, exc: Exception) -> None:
        cause = type(exc).__name__
        self.counters.fallbacks[cause] += 1
        if cause not in self._logged:
            self._logged.add(cause)
            _log.error(
                "speculation failed; the affected requests decode without drafts", exc_info=exc
            )
