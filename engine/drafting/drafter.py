"""A step of drafting: begins new requests, drafts for all sequences, and handles errors.

An error costs as few drafts as it can: those of a request that cannot begin, of the source that
failed, or of the step (docs/ARCHITECTURE.md, "One step").
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from engine._core.drafting import Batch
from engine.drafting.control import Control
from engine.drafting.origin import HEAD, Origin
from engine.drafting.step import Beginning, Counters, HeadPass, InFlight, StepDrafts
from engine.policy import Breaker, ForwardDrafter, Gate, Load
from engine.suffix import SuffixIndex

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
        index: The suffix index; None if there is none.
        gate: Sets the price of draft tokens, and says when a pass of the head pays.
        most: Longest draft, in tokens, at least 1.
        native_most: Most tokens that vLLM's own drafter proposes; 0 if there is none.
        head_most: Most tokens that the draft head proposes; 0 if there is none.
        fixed_price: For requests without a price of their own (`Control.price`); None: the gate's.
    """

    def __init__(
        self,
        index: SuffixIndex | None,
        gate: Gate,
        *,
        most: int,
        native_most: int = 0,
        head_most: int = 0,
        fixed_price: float | None = None,
    ) -> None:
        self.counters = Counters()
        self.gate = gate
        self._index = index
        self._most = most
        self._fixed_price = fixed_price
        self._batch = Batch(
            gate,
            None if index is None else index.core,
            native=ForwardDrafter(native_most, calibrated=False),
            head=ForwardDrafter(head_most, calibrated=True, probe_steps=_HEAD_PROBE_STEPS),
            origin=Origin,
        )
        self._step_breaker = Breaker()
        self._index_breaker = Breaker()
        self._head_breaker = Breaker()
        self._logged: set[str] = set()

    @property
    def running(self) -> Collection[str]:
        """Ids of the requests that have begun and not ended."""
        return self._batch.running

    @property
    def price(self) -> float:
        """The price of the latest step that had proposals."""
        return self._batch.price

    def is_paused(self, source: str) -> bool:
        """Whether a source pauses after repeated errors.

        Args:
            source: One of `SOURCE_NAMES`.
        """
        own = {"suffix": self._index_breaker, "head": self._head_breaker}.get(source)
        return self._step_breaker.is_open or (own is not None and own.is_open)

    def may_draft(self, source: str) -> bool:
        """Whether a source may draft: no pause after errors, and not too many requests.

        Args:
            source: One of `SOURCE_NAMES`.
        """
        return not self.is_paused(source) and not self.gate.is_limited

    def step(
        self,
        requests: Sequence[str],
        sampled: Sequence[Sequence[int]],
        begin: Callable[[str], Beginning],
        *,
        verified: Sequence[int],
        native: Sequence[Sequence[int]] | None = None,
        head: HeadPass | None = None,
        load: Load = _NOTHING_KNOWN,
        in_flight: InFlight | None = None,
    ) -> StepDrafts:
        """Draft for the next step that is not launched yet.

        Args:
            requests: Ids of the sequences of the step that was just sampled.
            sampled: New tokens of each; empty while its prompt is still being read.
            begin: Returns how a new request begins.
            verified: Draft tokens that were verified of each.
            native: Proposals of vLLM's own drafter by sequence; None if it did not run.
            head: Runs the draft head if that pays; None if it cannot run in this step.
            load: What else is known of the next step. Its sequences are those that got tokens now;
                its context tokens are those of the requests that got none.
            in_flight: The step behind the sampled one, if it has been launched already; `native`
                and `head` are None then.

        Never raises. An error is counted, and logged once per class.
        """
        if not self._step_breaker.allows():
            self.counters.decisions["paused"] += 1
            return StepDrafts.nothing(len(requests))
        failing = self._step_breaker
        try:
            launched = None if in_flight is None else in_flight.verified
            unknown = self._batch.enter(requests, sampled, verified, load, launched)
            if unknown is not None:
                for name in unknown:
                    self._begin(name, begin)
                self._batch.enter(requests, sampled, verified, load, launched)
            failing = self._index_breaker
            if failing.allows() and self._batch.ask():
                failing.succeeded()
            failing = self._step_breaker
            on_device = None if in_flight is None else in_flight.on_device
            if on_device is not None and on_device[0] == HEAD:
                self._head_breaker.succeeded()
            tokens, origins, decision, context_tokens = self._batch.draft(
                native,
                None if head is None else lambda places: self._run_head(head, places),
                on_device,
            )
        except Exception as exc:  # noqa: BLE001  # counted, logged, and never a failed request
            return self._give_up(exc, requests, failing)
        self.counters.decisions[decision] += 1
        failing.succeeded()
        return StepDrafts(tokens, origins, context_tokens)

    def fail(self, exc: Exception, requests: Sequence[str]) -> StepDrafts:
        """Give up the drafts of a step because of an error before it.

        Args:
            exc: Counted by its class, and logged once per class.
            requests: Of the step. Their state is undefined, so they are forgotten; a later step
                begins them again.
        """
        return self._give_up(exc, requests, self._step_breaker)

    def allows_head(self) -> bool:
        """Return whether the head may run in the next step. Call once per step."""
        return not self._step_breaker.is_open and self._head_breaker.allows()

    def fail_head(self, exc: Exception) -> None:
        """Take in that the head, or its memory, has failed; the other sources go on."""
        self._count(exc)
        self._failed(self._head_breaker, "the draft head")

    def native_tokens(self) -> int:
        """Return how many tokens vLLM's own drafter is to propose in the next step.

        With 0 it only keeps its own KV cache up to date. Call once per step.
        """
        return self._batch.native_tokens()

    def head_tokens(self) -> int:
        """Return how many tokens the head is to make on the device in the next step; often 0.

        That is for steps that are launched ahead. Call once per step.
        """
        return self._batch.head_tokens() if self.allows_head() else 0

    def end(self, requests: Collection[str], *, keep: bool) -> None:
        """Forget requests that finished, were aborted or preempted.

        Args:
            requests: Their ids; unknown ones are ignored.
            keep: Whether to keep what they wrote for later requests of their tenant.
        """
        for name in requests:
            try:
                if self._batch.end(name) and self._index is not None:
                    self._index.finish(name, keep=keep)
            except Exception as exc:  # noqa: BLE001  # as in `step`
                self._count(exc)

    def _begin(self, name: str, begin: Callable[[str], Beginning]) -> None:
        """Begin a request. One that cannot begin decodes plainly; the others go on."""
        try:
            beginning = begin(name)
            control = beginning.control
            if control.price is None and self._fixed_price is not None:
                control = replace(control, price=self._fixed_price)
            most = self._most if control.most is None else min(control.most, self._most)
            known = len(beginning.tokens)
            self._batch.begin(name, control, most=most, left=beginning.left, known=known)
            if self._index is not None and control.indexed and not self._index_breaker.is_open:
                self._begin_in_index(self._index, name, control, beginning.tokens)
        except Exception as exc:  # noqa: BLE001  # as in `step`
            self._count(exc)
            self._batch.begin(name, Control(), most=0, left=0, known=0)

    def _begin_in_index(
        self, index: SuffixIndex, name: str, control: Control, tokens: NDArray[np.int32]
    ) -> None:
        """Begin a request in the index, or count why it drafts from other sources only."""
        try:
            index.start(name, control.tenant, tokens, temperature=control.temperature)
        except Exception as exc:  # noqa: BLE001  # as in `step`
            self._count(exc)
            return
        self._batch.join(name)
        if control.prediction:
            try:
                index.predict(name, control.prediction)
            except Exception as exc:  # noqa: BLE001  # as in `step`
                self._count(exc)

    def _give_up(self, exc: Exception, requests: Sequence[str], breaker: Breaker) -> StepDrafts:
        self._count(exc)
        self.counters.decisions["failed"] += 1
        self.end(requests, keep=False)
        what = "the suffix index" if breaker is self._index_breaker else "speculation"
        if self._failed(breaker, what):
            # During the pause it is not told what is generated.
            self.end(self.running, keep=True)
        return StepDrafts.nothing(len(requests))

    def _run_head(
        self, head: HeadPass, sequences: Sequence[int]
    ) -> Sequence[tuple[Sequence[int], Sequence[float]]]:
        """Run the head; without proposals if it fails."""
        try:
            proposals = head(sequences)
        except Exception as exc:  # noqa: BLE001  # as in `step`
            self.fail_head(exc)
            return [((), ())] * len(sequences)
        self._head_breaker.succeeded()
        return proposals

    def _failed(self, breaker: Breaker, what: str) -> bool:
        """Record a failure; return whether that begins a pause."""
        if breaker.is_open or not breaker.failed():
            return False
        _log.error("%s is paused after repeated errors; requests decode without its drafts", what)
        return True

    def _count(self, exc: Exception) -> None:
        cause = type(exc).__name__
        self.counters.fallbacks[cause] += 1
        if cause not in self._logged:
            self._logged.add(cause)
            _log.error(
                "speculation failed; the affected requests decode without drafts", exc_info=exc
            )
