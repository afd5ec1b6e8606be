"""The worker's `engine_*` metrics, on vLLM's own `/metrics`.

Steps count plain numbers; once a second a thread hands them on, so that a step pays nothing for
them. The processes of a worker share a directory (`PROMETHEUS_MULTIPROC_DIR`), which vLLM's
endpoint reads.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from engine.drafting import DECISIONS, SOURCE_NAMES, Drafter, Origin
from engine.policy import HEAD, NATIVE, SUFFIX, Gate
from engine.suffix import Stats

# From a tenth of a millisecond, which our own code takes, to the longest prefill.
_STEP_BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)

VERIFYING_ROWS = (1, 4, 16, 64)
"""Requests of a step for which the cost of verification is shown."""

_COST_TOKENS = (1, 4, 16, 64, 256)
_PREDICTION_BUCKETS = (0.5, 0.67, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 5.0)

_IN_GATE = {"suffix": SUFFIX, "head": HEAD, "native": NATIVE}


def source_state(gate: Gate, source: str) -> dict[str, float]:
    """Return whether a source may draft (`open`, 0 or 1), and its `least_survival`."""
    least = gate.least(_IN_GATE[source])
    return {
        "open": int(least <= 1.0 and not gate.is_limited),
        "least_survival": round(least, 4),
    }


class _Total:
    """A counter that is set to sums kept elsewhere."""

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry
    ) -> None:
        self._counter = Counter(name, text, labels, registry=registry)
        self._published: dict[tuple[str, ...], float] = defaultdict(float)

    def publish(self, sums: Mapping[tuple[str, ...], float]) -> None:
        for labels, value in list(sums.items()):
            # A new one counts from 0 too: without it, its ratio to another is no data, not 0.
            is_new = labels not in self._published
            if (more := value - self._published[labels]) > 0 or is_new:
                (self._counter.labels(*labels) if labels else self._counter).inc(more)
                self._published[labels] = value


class _Spread:
    """Observations of a histogram: counted here by a step, handed on by `publish`.

    prometheus-client has no way to add many at once, and its `observe` takes two locks, asks twice
    for the process's id and writes to a file. So this adds to a histogram's cells; a test compares
    the result with that of `observe`.

    Args:
        histogram: One without labels, or one of its children.
        bounds: The upper bounds of its buckets, in order, without infinity.
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
        """Hand on what came since the last time; only one thread may do that."""
        for at, count in enumerate(self._counts):
            if more := count - self._published[at]:
                self._cells[at].inc(more)
                self._published[at] = count
        total = self._sum
        self._sum_cell.inc(total - self._published_sum)
        self._published_sum = total


class AcceptanceMetrics:
    """Draft and accepted tokens by source, counted where drafts are verified: by the scheduler."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._drafted: dict[tuple[str, ...], int] = defaultdict(int)
        self._accepted: dict[tuple[str, ...], int] = defaultdict(int)
        self._positions: dict[tuple[str, int], int] = defaultdict(int)
        self._drafts = 0
        self._drafts_total = _Total(
            "engine_spec_drafts", "Drafts that were verified.", (), registry
        )
        self._drafted_total = _Total(
            "engine_spec_draft_tokens", "Draft tokens that were verified.", ("source",), registry
        )
        self._accepted_total = _Total(
            "engine_spec_accepted_tokens", "Draft tokens that were accepted.", ("source",), registry
        )
        self._position_total = _Total(
            "engine_spec_accepted_at_position",
            "Draft tokens that were accepted, by their place in the draft, from 0.",
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
        """Return what was `drafted` and `accepted` of each source."""
        return {
            name: {"drafted": drafted, "accepted": self._accepted[name,]}
            for (name,), drafted in list(self._drafted.items())
        }

    def publish(self) -> None:
        """Hand the sums to Prometheus."""
        self._drafts_total.publish({(): self._drafts})
        self._drafted_total.publish(self._drafted)
        self._accepted_total.publish(self._accepted)
        self._position_total.publish(
            {(name, str(position)): n for (name, position), n in list(self._positions.items())}
        )


class DraftingMetrics:
    """What the rank that drafts decided, and what the suffix index holds."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._steps = _Total(
            "engine_spec_steps",
            "Steps, by what was decided about drafting for the next one.",
            ("verdict",),
            registry,
        )
        self._fallbacks = _Total(
            "engine_spec_fallbacks",
            "Steps or requests that decode plainly because speculation failed, by error.",
            ("reason",),
            registry,
        )
        self._evictions = _Total(
            "engine_suffix_evictions", "Tokens of finished answers that were evicted.", (), registry
        )
        self._price = Gauge(
            "engine_spec_price",
            "Survival at which a draft token pays, 0 to 1.",
            multiprocess_mode="mostrecent",
            registry=registry,
        )
        self._open = Gauge(
            "engine_spec_gate_open",
            "1 while the source may draft; 0 while it is paused after errors, while more requests "
            "run than max_batch_size, or while none of it keeps min_acceptance_ratio.",
            ("source",),
            multiprocess_mode="mostrecent",
            registry=registry,
        )
        self._tokens = Gauge(
            "engine_suffix_tokens",
            "Tokens of finished answers in the suffix index.",
            multiprocess_mode="mostrecent",
            registry=registry,
        )
        self._bytes = Gauge(
            "engine_suffix_bytes",
            "Memory that the suffix index uses.",
            multiprocess_mode="mostrecent",
            registry=registry,
        )
        self._capacity = Gauge(
            "engine_suffix_capacity_bytes",
            "Memory that the suffix index may use.",
            multiprocess_mode="mostrecent",
            registry=registry,
        )
        self._least = Gauge(
            "engine_spec_least_survival",
            "Survival below which nothing of a source is drafted, for min_acceptance_ratio; 0 for "
            "no limit, above 1 for none of it.",
            ("source",),
            multiprocess_mode="mostrecent",
            registry=registry,
        )
        self._cost = Gauge(
            "engine_spec_step_cost_seconds",
            "What the gate believes that a step takes, by the tokens that it computes.",
            ("tokens",),
            multiprocess_mode="mostrecent",
            registry=registry,
        )
        self._verification = Gauge(
            "engine_spec_verification_cost_seconds",
            "What the gate believes that a step takes longer with any draft, by its requests.",
            ("rows",),
            multiprocess_mode="mostrecent",
            registry=registry,
        )
        prediction = Histogram(
            "engine_spec_step_prediction_ratio",
            "A step's measured time over what the gate expected.",
            buckets=_PREDICTION_BUCKETS,
            registry=registry,
        )
        self._prediction = _Spread(prediction, _PREDICTION_BUCKETS)
        seconds = Histogram(
            "engine_spec_step_seconds",
            "A step's time: `target` is vLLM's forward and sampling, `head` a pass of the draft "
            "head, `draft` our own code beside that, and `draft_cpu` its part on the CPU.",
            ("phase",),
            buckets=_STEP_BUCKETS,
            registry=registry,
        )
        self._target, self._draft, self._draft_cpu, self._head = (
            _Spread(seconds.labels(phase), _STEP_BUCKETS)
            for phase in ("target", "draft", "draft_cpu", "head")
        )

    def observe_step(self, *, target: float, draft: float, draft_cpu: float, head: float) -> None:
        """Record a step's times, in seconds; `head` is 0 where the head did not run."""
        self._target.observe(target)
        self._draft.observe(draft)
        self._draft_cpu.observe(draft_cpu)
        if head:
            self._head.observe(head)

    def observe_prediction(self, ratio: float) -> None:
        """Record a step's measured time over what was expected of it."""
        self._prediction.observe(ratio)

    def publish(self, drafter: Drafter, index: Stats | None, sources: tuple[str, ...]) -> None:
        """Hand the sums and the latest values to Prometheus."""
        counters, gate = drafter.counters, drafter.gate
        for spread in (self._target, self._draft, self._draft_cpu, self._head, self._prediction):
            spread.publish()
        self._steps.publish({(decision,): counters.decisions[decision] for decision in DECISIONS})
        self._fallbacks.publish({(reason,): n for reason, n in list(counters.fallbacks.items())})
        self._price.set(drafter.price)
        for source in sources:
            state = source_state(gate, source)
            self._open.labels(source).set(state["open"] and not counters.paused)
            self._least.labels(source).set(state["least_survival"])
        if gate.is_measured:
            for tokens in _COST_TOKENS:
                self._cost.labels(str(tokens)).set(gate.predict_step(tokens))
            for rows in VERIFYING_ROWS:
                self._verification.labels(str(rows)).set(gate.predict_verification(rows))
        if index is not None:
            self._tokens.set(index.tokens)
            self._bytes.set(index.bytes)
            self._capacity.set(index.capacity_bytes)
            self._evictions.publish({(): index.evicted_tokens})
