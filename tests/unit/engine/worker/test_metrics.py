import pytest
from prometheus_client import CollectorRegistry, Histogram

from engine.drafting import Drafter, Origin
from engine.drafting.origin import NATIVE, PREDICTION, SUFFIX
from engine.policy import Gate, Launch
from engine.suffix import SuffixIndex
from engine.worker.metrics import (
    _PREDICTION_BUCKETS,
    AcceptanceMetrics,
    DraftingMetrics,
    HeadMetrics,
)
from tests.unit.engine.drafting.scripted import begin


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def test_tokens_count_for_the_source_of_their_part(registry: CollectorRegistry) -> None:
    metrics = AcceptanceMetrics(registry)
    metrics.observe(Origin(NATIVE), 3, 1)
    metrics.observe(Origin(NATIVE, SUFFIX, 3), 8, 5)
    metrics.publish()

    def value(name: str, source: str) -> float | None:
        return registry.get_sample_value(f"engine_spec_{name}_tokens_total", {"source": source})

    assert registry.get_sample_value("engine_spec_drafts_total") == 2
    assert (value("draft", "native"), value("accepted", "native")) == (6, 4)
    assert (value("draft", "suffix"), value("accepted", "suffix")) == (5, 2)


def test_positions_count_from_the_start_of_the_draft(registry: CollectorRegistry) -> None:
    metrics = AcceptanceMetrics(registry)
    metrics.observe(Origin(PREDICTION, SUFFIX, 1), 4, 3)
    metrics.publish()

    counts = {
        position: registry.get_sample_value(
            "engine_spec_accepted_at_position_total",
            {"source": "suffix", "position": str(position)},
        )
        for position in range(4)
    }
    assert counts == {0: 1, 1: 1, 2: 1, 3: None}


def test_a_source_without_accepted_tokens_reports_zero(
    registry: CollectorRegistry,
) -> None:
    metrics = AcceptanceMetrics(registry)
    metrics.observe(Origin(SUFFIX), 5, 0)
    metrics.publish()

    labels = {"source": "suffix"}
    assert registry.get_sample_value("engine_spec_accepted_tokens_total", labels) == 0


def test_decisions_costs_and_the_index_are_published(registry: CollectorRegistry) -> None:
    index = SuffixIndex(1 << 20, salt=1)
    index.start("r", "t", [1])
    index.extend("r", [2, 3, 4])
    index.finish("r", keep=True)
    gate = Gate([(1, 1.0)])
    drafter = Drafter(None, gate, most=4, native_most=3)
    drafter.step(["r"], [[1]], begin(), verified=[0], native=[[7]])
    for _ in range(3):
        drafter.fail(RuntimeError("broken"), [])
    drafter.counters.decisions["failed"] = 0
    drafter.counters.decisions["drafted"] = 4
    drafter.counters.fallbacks["RuntimeError"] = 1
    metrics = DraftingMetrics(registry)

    gate.observe_step(2, 0, 0.02)
    for _ in range(20):
        gate.observe_step(2, 0, 0.02)
        gate.observe_step(2, 0, 0.03, verifying=1)
    metrics.observe_prediction(1.2)
    metrics.observe_step(target=0.02, draft=0.0001, draft_cpu=0.00005, head=0.001)
    metrics.publish(drafter, index.stats(), ("suffix",))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("engine_spec_steps_total", verdict="drafted") == 4
    assert value("engine_spec_steps_total", verdict="limited") == 0
    assert value("engine_spec_step_cost_seconds", tokens="1") == pytest.approx(0.02, rel=0.1)
    assert value("engine_spec_verification_cost_seconds", rows="1") == pytest.approx(0.01, rel=0.2)
    assert value("engine_spec_step_prediction_ratio_sum") == pytest.approx(1.2)
    assert value("engine_spec_fallbacks_total", reason="RuntimeError") == 1
    assert value("engine_spec_price") == drafter.price > 0.0
    assert value("engine_spec_gate_open", source="suffix") == 0
    assert value("engine_suffix_tokens") == index.stats().tokens > 0
    assert value("engine_suffix_bytes") == index.stats().bytes
    assert value("engine_suffix_capacity_bytes") == 1 << 20
    assert value("engine_suffix_evictions_total") == 0
    assert value("engine_spec_step_seconds_sum", phase="target") == pytest.approx(0.02)
    assert value("engine_spec_step_seconds_count", phase="draft") == 1
    assert value("engine_spec_step_seconds_sum", phase="head") == pytest.approx(0.001)


def published(metrics: DraftingMetrics) -> None:
    metrics.publish(Drafter(None, Gate([(1, 1.0)]), most=4), None, ())


def test_published_batches_equal_single_observations(
    registry: CollectorRegistry,
) -> None:
    metrics = DraftingMetrics(registry)
    one_by_one = Histogram("ratio", "", buckets=_PREDICTION_BUCKETS, registry=registry)
    ratios = [0.1, 0.5, 0.51, 1.0, 1.0, 1.26, 5.0, 7.0]

    for number, ratio in enumerate(ratios):
        one_by_one.observe(ratio)
        metrics.observe_prediction(ratio)
        if number % 3 == 0:
            published(metrics)
    published(metrics)
    published(metrics)

    expected, found = (
        {
            (sample.name.removeprefix(name), *sample.labels.values()): sample.value
            for family in registry.collect()
            for sample in family.samples
            if sample.name.startswith(name) and not sample.name.endswith("_created")
        }
        for name in ("ratio", "engine_spec_step_prediction_ratio")
    )
    assert found == pytest.approx(expected)
    assert found["_count",] == len(ratios)


def test_sources_are_closed_while_more_requests_run_than_allowed(
    registry: CollectorRegistry,
) -> None:
    drafter = Drafter(None, Gate([(1, 1.0)], max_batch_size=1), most=4)
    metrics = DraftingMetrics(registry)
    found = []
    for requests in (["a"], ["a", "b"]):
        drafter.step(requests, [[1]] * len(requests), begin(), verified=[0] * len(requests))
        metrics.publish(drafter, None, ("suffix",))
        found.append(registry.get_sample_value("engine_spec_gate_open", {"source": "suffix"}))

    assert found == [1, 0]


def test_a_head_that_lost_its_role_is_shown_as_0(registry: CollectorRegistry) -> None:
    metrics = HeadMetrics(registry)
    metrics.publish({"a": "serving", "b": "challenger"}, {"adopted": 0})
    metrics.publish({"b": "serving", "a": "guard"}, {"adopted": 1})
    metrics.publish({"b": "serving"}, {"adopted": 1})

    def value(version: str, role: str) -> float | None:
        labels = {"version": version, "role": role}
        return registry.get_sample_value("engine_head_info", labels)

    assert (value("a", "serving"), value("a", "guard"), value("b", "challenger")) == (0, 0, 0)
    assert value("b", "serving") == 1
    changes = registry.get_sample_value("engine_head_changes_total", {"result": "adopted"})
    assert changes == 1


def test_launches_are_counted_where_steps_may_be_launched_ahead(
    registry: CollectorRegistry,
) -> None:
    launch = Launch()
    launch.observe(ahead=True, sequences=1, tokens=1, seconds=1.0)
    metrics, drafter = DraftingMetrics(registry), Drafter(None, Gate(((1, 1.0),)), most=1)

    metrics.publish(drafter, None, ())
    assert registry.get_sample_value("engine_spec_launches_total", {"launch": "ahead"}) is None
    metrics.publish(drafter, None, (), launch)

    counts = [
        registry.get_sample_value("engine_spec_launches_total", {"launch": name})
        for name in ("wait", "ahead")
    ]
    assert counts == [0, 1]
