"""The worker's `engine_*` metrics, on vLLM's own `/metrics`.

Steps count plain numbers; once a second a thread hands them on, so that a step pays nothing for
them. The processes of a worker share a directory (`PROMETHEUS_MULTIPROC_DIR`), which vLLM's
endpoint reads.
"""

from collections import defaultdict
from collections.abc import Mapping

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from engine.drafting import SOURCE_NAMES, Counters, Origin
from engine.suffix import Stats

# From a tenth of a millisecond, which our own code takes, to the longest prefill.
_STEP_BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)


class _Total:
    """A counter that is set to sums kept elsewhere."""

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry
    ) -> None:
        self._counter = Counter(name, text, labels, registry=registry)
        self._published: dict[tuple[str, ...], float] = defaultdict(float)

    def publish(self, sums: Mapping[tuple[str, ...], float]) -> None:
        for labels, value in list(sums.items()):
            if (more := value - self._published[labels]) > 0:
                (self._counter.labels(*labels) if labels else self._counter).inc(more)
                self._published[labels] = value


class AcceptanceMetrics:
    """Draft and accepted tokens by source, counted where drafts are verified: by the scheduler."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._drafted: dict[tuple[str, ...], int] = defaultdict(int)
        self._accepted: dict[tuple[str, ...], int] = defaultdict(int)
        self._positions: dict[tuple[str, int], int] = defaultdict(int)
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
        for code, _, count in origin.split(drafted):
            self._drafted[(SOURCE_NAMES[code],)] += count
        for code, first, count in origin.split(accepted):
            name = SOURCE_NAMES[code]
            self._accepted[(name,)] += count
            for position in range(first, first + count):
                self._positions[name, position] += 1

    def publish(self) -> None:
        """Hand the sums to Prometheus."""
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
            "1 while the source may draft, 0 while it is paused after errors.",
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
        seconds = Histogram(
            "engine_spec_step_seconds",
            "A step's time: `target` is vLLM's forward and sampling, `head` a pass of the draft "
            "head, `draft` our own code beside that, and `draft_cpu` its part on the CPU.",
            ("phase",),
            buckets=_STEP_BUCKETS,
            registry=registry,
        )
        self._target, self._draft = seconds.labels("target"), seconds.labels("draft")
        self._draft_cpu, self._head = seconds.labels("draft_cpu"), seconds.labels("head")

    def observe_step(self, *, target: float, draft: float, draft_cpu: float, head: float) -> None:
        """Record a step's times, in seconds; `head` is 0 where the head did not run."""
        self._target.observe(target)
        self._draft.observe(draft)
        self._draft_cpu.observe(draft_cpu)
        if head:
            self._head.observe(head)

    def publish(self, counters: Counters, index: Stats | None, sources: tuple[str, ...]) -> None:
        """Hand the sums and the latest values to Prometheus."""
        self._steps.publish({(verdict,): n for verdict, n in list(counters.verdicts.items())})
        self._fallbacks.publish({(reason,): n for reason, n in list(counters.fallbacks.items())})
        self._price.set(counters.price)
        for source in sources:
            self._open.labels(source).set(0 if counters.paused else 1)
        if index is not None:
            self._tokens.set(index.tokens)
            self._bytes.set(index.bytes)
            self._evictions.publish({(): index.evicted_tokens})
