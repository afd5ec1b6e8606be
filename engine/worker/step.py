"""Our part of one step of decoding, on the rank that drafts; any runner of vLLM's can call it.

That is `StepDrafting`, called in the order of a step: `begin`, then `draft`, once tokens are
sampled (docs/ARCHITECTURE.md, "One step of decoding"). `BatchView` is what it reads of the runner.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from engine.drafting import Beginning, Control, Drafter, InFlight, StepDrafts
from engine.heads import DraftHead, HeadMemory
from engine.policy import Launch, Load
from engine.worker.collection import Recorder
from engine.worker.head import HeadRun, PromptRecord, StepStates
from engine.worker.heads import Heads
from engine.worker.metrics import DraftingMetrics
from engine.worker.trial import Conditions


@dataclass(frozen=True, slots=True)
class NextStep:
    """What the scheduler knows of the next step; it tells the rank that drafts.

    Attributes:
        prefill_tokens: Prompt tokens that it reads.
        context_tokens: Tokens in the KV caches of requests whose prompt is partly read.
        waiting: Requests whose prompt is partly read, or could be begun.
        room_tokens: Draft tokens for which the KV cache and the step have room; None if for all.
        read_tokens: Prompt tokens that the current step reads.
    """

    prefill_tokens: int = 0
    context_tokens: int = 0
    waiting: int = 0
    room_tokens: int | None = None
    read_tokens: int = 0

    def as_load(self) -> Load:
        """Return it for the drafter, which adds the sequences and the tokens in their caches."""
        return Load(
            0,
            prefill_tokens=self.prefill_tokens,
            context_tokens=self.context_tokens,
            waiting=self.waiting,
            room_tokens=self.room_tokens,
            read_tokens=self.read_tokens,
        )


NOTHING_KNOWN = NextStep()


@dataclass(frozen=True, slots=True)
class SampledStep:
    """A step that vLLM has computed and sampled; sequences are in the batch's order.

    Attributes:
        requests: Ids of its sequences.
        sampled: New tokens of each; empty while its prompt is still being read.
        verified: Draft tokens verified of each. vLLM may cut drafts: to fit the step or the KV
            cache, or where a grammar forbids a token.
        tokens: All tokens computed: next tokens, drafts and prompts.
        has_new: Whether requests have joined the batch.
        states: Hidden states of what was sampled; None if there is no head.
        is_latest: Whether no later step was launched and no request has left since. Only then the
            head can draft from the states, and those of prompts can be read.
        next_step: What is known of the next step.
        in_flight: The next step, if it has been launched already; drafts are for the one after it.
    """

    requests: Sequence[str]
    sampled: Sequence[Sequence[int]]
    verified: Sequence[int]
    tokens: int
    has_new: bool = False
    states: StepStates | None = None
    is_latest: bool = True
    next_step: NextStep = NOTHING_KNOWN
    in_flight: InFlight | None = None

    @property
    def decoding(self) -> int:
        """The number of sequences that got tokens."""
        return len(self.sampled) - self.sampled.count([])

    @property
    def has_prompts(self) -> bool:
        """Whether prompt tokens may have been read in it."""
        return self.has_new or bool(self.next_step.read_tokens) or not all(self.sampled)

    @property
    def verifying(self) -> int:
        """The number of sequences that got tokens, if any draft was verified; else 0."""
        return self.decoding if any(self.verified) else 0


class BatchView(Protocol):
    """What a runner lets us read of its requests between sampling and the next step."""

    def text(self, request: str) -> NDArray[np.int32]:
        """Return its prompt and output, with the tokens sampled now; shape (n,), not to be kept."""

    def left(self, request: str) -> int:
        """Return how many tokens it may still get, by its own limit and the model's length."""

    def control(self, request: str) -> Control:
        """Read what it asks of its drafts. Called once: a prediction in it may be long."""

    def note_prompts(self, memory: PromptRecord, wants: Callable[[str], bool]) -> None:
        """Have a record take the prompt positions of the step (see `note_prefill`)."""


class StepDrafting:
    """Learns from each step and drafts for the next one. Errors cost drafts, never a request.

    Attributes:
        heads: The draft head that serves, if there is one, and one that is tried beside it.
        launch: Chooses whether steps are launched ahead; None if they all wait.
        goes_ahead: Its latest choice.
        recorder: Records the traffic that heads may learn from; None if none may.

    Args:
        drafter: Decides what each request drafts.
        metrics: Of its decisions and of the times of steps.
        batch: Of the runner.
        launch: See above.
    """

    def __init__(
        self,
        drafter: Drafter,
        metrics: DraftingMetrics,
        batch: BatchView,
        *,
        launch: Launch | None = None,
    ) -> None:
        self.drafter = drafter
        self.heads = Heads()
        self._metrics = metrics
        self._batch = batch
        self.launch = launch
        self.goes_ahead = False
        self.recorder: Recorder | None = None
        self._controls: dict[str, Control] = {}
        self._timer = StepTimer()
        self._began = 0.0

    @property
    def head(self) -> DraftHead | None:
        """The draft head that serves, for which a runner keeps hidden states; None if none does."""
        serving = self.heads.serving
        return None if serving is None else serving.head

    def begin(self, finished: Collection[str], preempted: Collection[str]) -> None:
        """Begin a step: learn from the time of the last one, and end requests.

        Args:
            finished: Requests that finished or were aborted since the last step.
            preempted: Requests that have left the batch; if they return, they begin again.
        """
        self._began = time.perf_counter()
        timed = self._timer.begin(self._began, {*finished, *preempted})
        if timed is not None:
            step, seconds = timed
            expected = self.drafter.gate.observe_step(
                step.tokens, step.context_tokens, seconds, step.verifying
            )
            if expected > 0.0:
                self._metrics.observe_prediction(seconds / expected)
            if self.launch is not None:
                self.launch.observe(
                    ahead=step.ahead,
                    sequences=step.decoding,
                    tokens=step.gained,
                    seconds=seconds + step.head_seconds,
                )
        for request in finished:
            self._controls.pop(request, None)
        for gone in (finished, preempted):
            self.drafter.end(gone, keep=True)
            self._leave_memory(gone)
            if self.recorder is not None:
                self.recorder.forget(gone)

    def draft(self, step: SampledStep, native: Sequence[Sequence[int]] | None = None) -> StepDrafts:
        """Learn from the sampled tokens, and return the drafts of the next step.

        Args:
            step: The step since `begin`.
            native: Proposals of vLLM's own drafter by sequence; None if it did not run.
        """
        began, began_cpu = time.perf_counter(), time.thread_time()
        if self.launch is not None:
            self.goes_ahead = self.launch.choose(step.decoding) and not self._compares(step)
        head = self._head_run(step)
        drafts = self.drafter.step(
            step.requests,
            step.sampled,
            lambda request: self._beginning(request, step),
            verified=step.verified,
            native=native,
            head=head,
            load=step.next_step.as_load(),
            in_flight=step.in_flight,
        )
        if self.recorder is not None:
            self._record(self.recorder, step)
        head_seconds, head_cpu = (0.0, 0.0) if head is None else (head.seconds, head.cpu_seconds)
        if head is not None and head.sequences:
            self.drafter.gate.observe_head(head.sequences, head_seconds)
        if head is not None and self.heads.is_trying:
            head_seconds += self._try_challenger(head, step)
        context = drafts.context_tokens
        if context is not None:
            self._timer.end(
                TimedStep(
                    step.requests,
                    step.tokens,
                    context,
                    head_seconds,
                    step.verifying,
                    decoding=step.decoding,
                    gained=sum(map(len, step.sampled)),
                    ahead=step.in_flight is not None,
                )
            )
        self._metrics.observe_step(
            target=began - self._began,
            draft=time.perf_counter() - began - head_seconds,
            draft_cpu=time.thread_time() - began_cpu - head_cpu,
            head=head_seconds,
        )
        return drafts

    def head_on_device(self) -> tuple[DraftHead, int] | None:
        """Return the head, and how many tokens it is to draft on the device in the next step.

        That is where steps are launched ahead. None if it does not pay, or if the head looks back:
        what it remembers is written from tokens on the CPU. Call once per step.
        """
        serving = self.heads.serving
        if not self.goes_ahead or serving is None or serving.memory is not None:
            return None
        most = min(serving.most, self.drafter.head_tokens())
        return (serving.head, most) if most else None

    def launches(self) -> dict[str, JsonValue]:
        """Return how many timed steps waited for the tokens before them, and how many did not."""
        launch = self.launch
        return {} if launch is None else {"waited": launch.waiting, "ahead": launch.ahead}

    def _head_run(self, step: SampledStep) -> HeadRun | None:
        """Return a pass of the head for the drafter to call; the head's memory records the step."""
        serving = self.heads.serving
        if serving is None:
            return None
        if step.states is None or not step.is_latest or not self.drafter.allows_head():
            self.heads.clear()
            return None
        try:
            if serving.memory is not None:
                self._note_prompts(serving.memory, step)
            return HeadRun(
                serving.head,
                serving.most,
                step.states,
                step.requests,
                step.sampled,
                memory=serving.memory,
            )
        except Exception as exc:  # noqa: BLE001  # as in `Drafter.step`
            self.drafter.fail_head(exc)
            self.heads.clear()
            return None

    def _note_prompts(self, memory: HeadMemory, step: SampledStep) -> None:
        if step.has_prompts:
            self._batch.note_prompts(memory, self._wants_head)

    def _record(self, recorder: Recorder, step: SampledStep) -> None:
        """Record the step's text; an error costs what is not stored yet, and nothing else."""
        try:
            if step.states is None:
                recorder.clear()
                return
            if not step.is_latest:
                recorder.drop_prompts()  # what follows them is missing
            elif step.has_prompts:
                self._batch.note_prompts(recorder, recorder.wants)
            recorder.take(step.requests, step.sampled, step.states)
        except Exception as exc:  # noqa: BLE001  # counted, logged, and never a failed request
            recorder.fail(exc)

    def _compares(self, step: SampledStep) -> bool:
        """Whether heads are compared in these steps, which then wait for the tokens on the CPU."""
        is_trying = self.heads.is_trying and self.drafter.gate.price < 1.0
        return is_trying and any(map(self._wants_head, step.requests))

    def _try_challenger(self, head: HeadRun, step: SampledStep) -> float:
        """Go on with the trial of another head; return the seconds of its passes."""
        gate = self.drafter.gate
        return self.heads.try_challenger(
            head,
            Conditions(gate.price, gate.goodput if gate.is_measured else 0.0),
            self.control,
            lambda memory: self._note_prompts(memory, step),
        )

    def _leave_memory(self, requests: Collection[str]) -> None:
        """Drop finished and preempted requests from the heads' memories."""
        try:
            self.heads.forget_requests(requests)
        except Exception as exc:  # noqa: BLE001  # as in `Drafter.step`
            self.drafter.fail_head(exc)
            self.heads.clear()

    def _beginning(self, request: str, step: SampledStep) -> Beginning:
        text = self._batch.text(request)
        new = len(step.sampled[step.requests.index(request)])
        before = np.ascontiguousarray(text[: len(text) - new], np.int32)
        return Beginning(before, self.control(request), left=self._batch.left(request) + new)

    def control(self, request: str) -> Control:
        """Return what a request of the batch asks for."""
        known = self._controls.get(request)
        if known is None:
            known = self._controls[request] = self._batch.control(request)
        return known

    def _wants_head(self, request: str) -> bool:
        control = self.control(request)
        return control.head and control.most != 0


class TimedStep(NamedTuple):
    """A step that was computed, for learning from its time.

    Attributes:
        requests: The requests in it.
        tokens: All tokens computed: next tokens, drafts and prompts.
        context_tokens: Tokens in the caches of its requests.
        head_seconds: Time of the head's pass.
        verifying: Requests that got tokens, if any draft was verified; else 0.
        decoding: Requests that got tokens.
        gained: What they got.
        ahead: Whether the next step was launched before these tokens were known.
    """

    requests: Collection[str]
    tokens: int
    context_tokens: int
    head_seconds: float
    verifying: int = 0
    decoding: int = 0
    gained: int = 0
    ahead: bool = False


class StepTimer:
    """Times whole steps, from the start of one to the start of the next.

    That includes scheduling and drafting. A step counts only if one of its requests goes on, since
    the engine may have been idle otherwise.

    Where each step is launched while the one before it runs, starts are as far apart as ends. The
    last step of such a row does not count: it began while another one ran.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._last: TimedStep | None = None
        self._was_ahead = False

    def begin(self, now: float, gone: Collection[str]) -> tuple[TimedStep, float] | None:
        """Start a step; return the previous one and its seconds without the head's pass.

        Args:
            now: Reading of any clock, in seconds.
            gone: Requests that finished or were preempted since the last step.

        Returns:
            None if the previous step cannot be timed.
        """
        began, self._began = self._began, now
        last, self._last = self._last, None
        if last is None or all(request in gone for request in last.requests):
            return None
        return last, now - began - last.head_seconds

    def end(self, step: TimedStep) -> None:
        """Set the step that was computed since `begin`; a step without `end` is not timed."""
        is_last_of_row = self._was_ahead and not step.ahead
        self._was_ahead = step.ahead
        self._last = None if is_last_of_row else step
