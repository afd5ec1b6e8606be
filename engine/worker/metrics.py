"""The worker's `engine_*` metrics, on vLLM's own `/metrics`.

Steps only increment plain numbers; a thread publishes them once a second, so that steps pay almost
nothing for metrics. The worker's processes share a folder (`PROMETHEUS_MULTIPROC_DIR`), which
vLLM's endpoint reads.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from engine.drafting import DECISIONS, SOURCE_NAMES, Drafter, Origin
from engine.policy import Launch
from engine.suffix import Stats
from engine.worker.uniform import UniformTest

# From 0.1 ms, the order of our own code, to the longest prefill.
_STEP_BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)

VERIFYING_SIZES = (1, 4, 16, 64)
"""Batch sizes for which the cost of verification is reported."""

_COST_TOKENS = (1, 4, 16, 64, 256)
_PREDICTION_BUCKETS = (0.5, 0.67, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 5.0)

_PREDICTION_RATE = 1.0 / 64.0
"""Rate of the moving average of measured over expected step times, per step."""


class _Total:
    """A counter that follows sums counted elsewhere."""

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry
    ) -> None:
        self._counter = Counter(name, text, labels, registry=registry)
        self._published: dict[tuple[str, ...], float] = defaultdict(float)

    def publish(self, sums: Mapping[tuple[str, ...], float]) -> None:
        for labels, value in list(sums.items()):
            # Publish new labels even at 0; without them, a ratio to this counter would be no data.
            is_new = labels not in self._published
            if (more := value - self._published[labels]) > 0 or is_new:
                (self._counter.labels(*labels) if labels else self._counter).inc(more)
                self._published[labels] = value


class _Spread:
    """A histogram that is filled in two stages: `observe` counts locally, `publish` adds them.

    prometheus-client cannot add many observations at once, and its `observe` takes two locks, reads
    the process id twice and writes to a file. So this class adds to the histogram's internal cells;
    a test compares the result with that of `observe`.

    Args:
        histogram: A histogram without labels, or a labelled child.
        bounds: Upper bounds of its buckets, rising, without infinity.
    """

    def __init__(self, histogram: Histogram, bounds: Sequence[float]) -> None:
        self._sum_cell, self._cells = histogram._sum, histogram._buckets
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._published = [0] * (len(bounds) + 1)
        self._published_sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def publish(self) -> None:
        """Add the observations since the last call; call it from one thread only."""
        for at, count in enumerate(self._counts):
            if more := count - self._published[at]:
                self._cells[at].inc(more)
                self._published[at] = count
        total = self._sum
        self._sum_cell.inc(total - self._published_sum)
        self._published_sum = total


class AcceptanceMetrics:
    """Drafted and accepted tokens by source, counted by the scheduler when drafts are verified."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._drafted: dict[tuple[str, ...], int] = defaultdict(int)
        self._accepted: dict[tuple[str, ...], int] = defaultdict(int)
        self._positions: dict[tuple[str, int], int] = defaultdict(int)
        self._drafts = 0
        self._drafts_total = _Total("engine_spec_drafts", "Verified drafts.", (), registry)
        self._drafted_total = _Total(
            "engine_spec_draft_tokens", "Verified draft tokens.", ("source",), registry
        )
        self._accepted_total = _Total(
            "engine_spec_accepted_tokens", "Accepted draft tokens.", ("source",), registry
        )
        self._position_total = _Total(
            "engine_spec_accepted_at_position",
            "Accepted draft tokens by their position in the draft, from 0.",
            ("source", "position"),
            registry,
        )

    def observe(self, origin: Origin, drafted: int, accepted: int) -> None:
        """Count a verified draft."""
        self._drafts += 1
        for code, _, count in origin.split(drafted):
            self._drafted[(SOURCE_NAMES[code],)] += count
            self._accepted[(SOURCE_NAMES[code],)] += 0
        for code, first, count in origin.split(accepted):
            name = SOURCE_NAMES[code]
            self._accepted[(name,)] += count
            for position in range(first, first + count):
                self._positions[name, position] += 1

    def by_source(self) -> dict[str, dict[str, int]]:
        """Return the `drafted` and `accepted` tokens of each source."""
        return {
            name: {"drafted": drafted, "accepted": self._accepted[name,]}
            for (name,), drafted in list(self._drafted.items())
        }

    def publish(self) -> None:
        """Publish the counts to Prometheus."""
        self._drafts_total.publish({(): self._drafts})
        self._drafted_total.publish(self._drafted)
        self._accepted_total.publish(self._accepted)
        self._position_total.publish(
            {(name, str(position)): n for (name, position), n in list(self._positions.items())}
        )


class DraftingMetrics:
    """What the drafting rank decided, and the contents of the suffix index.

    Attributes:
        prediction: Moving average of the ratio of measured to expected step times.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self.prediction = 1.0
        gauge = partial(Gauge, multiprocess_mode="mostrecent", registry=registry)
        self._steps = _Total(
            "engine_spec_steps",
            "Steps, by the decision on drafting for the next step.",
            ("verdict",),
            registry,
        )
        self._launches = _Total(
            "engine_spec_launches",
            "With async scheduling, timed steps: those whose tokens the next step waited for "
            "(`wait`), and those with the next one launched before they were known (`ahead`).",
            ("launch",),
            registry,
        )
        self._fallbacks = _Total(
            "engine_spec_fallbacks",
            "Steps or requests that decoded without speculation after an error, by error.",
            ("reason",),
            registry,
        )
        self._evictions = _Total(
            "engine_suffix_evictions", "Evicted tokens of finished answers.", (), registry
        )
        self._price = gauge(
            "engine_spec_price",
            "Lowest survival at which a draft token is worth verifying, 0 to 1.",
        )
        self._open = gauge(
            "engine_spec_gate_open",
            "1 if the source may draft; 0 while it is paused after errors, or while more than "
            "max_batch_size requests run.",
            ("source",),
        )
        self._tokens = gauge(
            "engine_suffix_tokens", "Tokens of finished answers in the suffix index."
        )
        self._bytes = gauge("engine_suffix_bytes", "Memory used by the suffix index.")
        self._capacity = gauge("engine_suffix_capacity_bytes", "Memory limit of the suffix index.")
        self._trust = gauge(
            "engine_spec_trust",
            "Accepted over stated tokens of the suffix index, recently; its survivals are "
            "multiplied by it.",
        )
        self._cost = gauge(
            "engine_spec_step_cost_seconds",
            "Expected step time, by number of tokens in the step.",
            ("tokens",),
        )
        self._verification = gauge(
            "engine_spec_verification_cost_seconds",
            "Expected extra step time for verifying any draft, by number of requests in the step.",
            ("rows",),
        )
        prediction = Histogram(
            "engine_spec_step_prediction_ratio",
            "Measured step time over the gate's expected step time.",
            buckets=_PREDICTION_BUCKETS,
            registry=registry,
        )
        self._prediction_ratio = _Spread(prediction, _PREDICTION_BUCKETS)
        seconds = Histogram(
            "engine_spec_step_seconds",
            "Step time by phase: `target` is vLLM's forward pass and sampling, `head` the draft "
            "head's pass, `draft` the rest of our code, `draft_cpu` the CPU time of `draft`.",
            ("phase",),
            buckets=_STEP_BUCKETS,
            registry=registry,
        )
        self._target, self._draft, self._draft_cpu, self._head = (
            _Spread(seconds.labels(phase), _STEP_BUCKETS)
            for phase in ("target", "draft", "draft_cpu", "head")
        )

    def observe_step(self, *, target: float, draft: float, draft_cpu: float, head: float) -> None:
        """Record the times of a step, in seconds; `head` is 0 if the head did not run."""
        self._target.observe(target)
        self._draft.observe(draft)
        self._draft_cpu.observe(draft_cpu)
        if head:
            self._head.observe(head)

    def observe_prediction(self, ratio: float) -> None:
        """Record the ratio of a step's measured to its expected time."""
        self._prediction_ratio.observe(ratio)
        self.prediction += _PREDICTION_RATE * (ratio - self.prediction)

    def publish(
        self,
        drafter: Drafter,
        index: Stats | None,
        sources: tuple[str, ...],
        launch: Launch | None = None,
    ) -> None:
        """Publish the counts and the current values to Prometheus."""
        if launch is not None:
            self._launches.publish({("wait",): launch.waiting, ("ahead",): launch.ahead})
        counters, gate = drafter.counters, drafter.gate
        for spread in (self._target, self._draft, self._draft_cpu, self._head):
            spread.publish()
        self._prediction_ratio.publish()
        self._steps.publish({(decision,): counters.decisions[decision] for decision in DECISIONS})
        self._fallbacks.publish({(reason,): n for reason, n in list(counters.fallbacks.items())})
        self._price.set(drafter.price)
        for source in sources:
            self._open.labels(source).set(drafter.may_draft(source))
        self._trust.set(gate.trust)
        if gate.is_measured:
            for tokens in _COST_TOKENS:
                self._cost.labels(str(tokens)).set(gate.predict_step(tokens))
            for sequences in VERIFYING_SIZES:
                cost = gate.predict_verification(sequences)
                self._verification.labels(str(sequences)).set(cost)
        if index is not None:
            self._tokens.set(index.tokens)
            self._bytes.set(index.bytes)
            self._capacity.set(index.capacity_bytes)
            self._evictions.publish({(): index.evicted_tokens})


class HeadMetrics:
    """Which draft heads there are, and what became of commands."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        gauge = partial(Gauge, multiprocess_mode="mostrecent", registry=registry)
        self._info = gauge(
            "engine_head_info",
            "1 for a draft head that has this role: serving; challenger, tried beside it; guard, "
            "the previous one, which may come back. 0 once it has it no longer.",
            ("version", "role"),
        )
        self._changes = _Total(
            "engine_head_changes",
            "Commands to load or unload a draft head, by outcome.",
            ("result",),
            registry,
        )
        self._shown: set[tuple[str, str]] = set()

    def publish(self, roles: Mapping[str, str], results: Mapping[str, int]) -> None:
        """Publish the heads of now and the outcomes so far.

        Args:
            roles: Role by version.
            results: Number of changes by outcome.
        """
        now = set(roles.items())
        for version, role in self._shown | now:
            self._info.labels(version, role).set(int((version, role) in now))
        self._shown |= now
        self._changes.publish({(result,): n for result, n in results.items()})


class AdaptMetrics:
    """Recorded traffic, and the heads that were trained on it."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._tokens = _Total(
            "engine_adapt_tokens", "Answer tokens that were recorded to learn from.", (), registry
        )
        self._dropped = _Total(
            "engine_adapt_dropped_segments",
            "Recorded segments that were lost: they could not be written (`disk`), too many waited "
            "(`queue`), or something was wrong (`error`).",
            ("reason",),
            registry,
        )
        self._bytes = Gauge(
            "engine_adapt_bytes",
            "Recorded traffic on disk.",
            multiprocess_mode="mostrecent",
            registry=registry,
        )
        self._trainings = _Total(
            "engine_adapt_trainings",
            "Trainings of a head on recorded traffic, by outcome: `published`; `not_better` on "
            "held-out text; `deleted`, since segments were deleted meanwhile; `failed`; `killed`.",
            ("outcome",),
            registry,
        )

    def publish(
        self, tokens: int, dropped: Mapping[str, int], held_bytes: int, trainings: Mapping[str, int]
    ) -> None:
        """Publish the counts so far.

        Args:
            tokens: Recorded.
            dropped: Segments by reason.
            held_bytes: On disk.
            trainings: By outcome.
        """
        self._tokens.publish({(): tokens})
        self._dropped.publish({(reason,): n for reason, n in dropped.items()})
        self._bytes.set(held_bytes)
        self._trainings.publish({(outcome,): n for outcome, n in trainings.items()})


class SamplingMetrics:
    """Whether sampled tokens are what the target would sample (`engine.worker.uniform`)."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._checks = _Total(
            "engine_sampling_checks",
            "Sampled tokens at drafted places, by the tenth of [0, 1] (0 to 9) in which their "
            "probability integral transform fell: all are equally likely.",
            ("tenth",),
            registry,
        )
        self._evidence = Gauge(
            "engine_sampling_evidence",
            "Decimal logarithm of the evidence that these are not equally likely. A correct "
            "sampler ever reaches 6 with a probability of at most one in a million.",
            multiprocess_mode="mostrecent",
            registry=registry,
        )

    def publish(self, test: UniformTest) -> None:
        """Publish what was found so far."""
        self._checks.publish({(str(at),): count for at, count in enumerate(test.counts)})
        self._evidence.set(test.evidence)


class ExactnessMetrics:
    """Whether results are batch-invariant, as a metric."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        gauge = partial(Gauge, multiprocess_mode="mostrecent", registry=registry)
        self._invariant = gauge(
            "engine_batch_invariant",
            "1 if a token's logits depend on nothing else in the step; else 0, by reason: device, "
            "setting, processor, compiled, dtype, ranks, attention, layer.",
            ("reason",),
        )

    def publish(self, *, is_batch_invariant: bool, reason: str) -> None:
        """Set it; once in a process.

        Args:
            is_batch_invariant: Whether they are.
            reason: Why not; empty if they are.
        """
        self._invariant.labels(reason).set(int(is_batch_invariant))
