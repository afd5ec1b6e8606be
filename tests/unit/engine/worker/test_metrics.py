import pytest
from prometheus_client import CollectorRegistry

from engine.drafting import Counters, Origin
from engine.drafting.origin import NATIVE, PREDICTION, SUFFIX
from engine.suffix import SuffixIndex
from engine.worker.metrics import AcceptanceMetrics, DraftingMetrics


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def test_tokens_are_counted_for_the_source_of_their_part(registry: CollectorRegistry) -> None:
    metrics = AcceptanceMetrics(registry)
    metrics.observe(Origin(NATIVE), 3, 1)
    metrics.observe(Origin(NATIVE, SUFFIX, 3), 8, 5)
    metrics.publish()

    def value(name: str, source: str) -> float | None:
        return registry.get_sample_value(f"engine_spec_{name}_tokens_total", {"source": source})

    assert (value("draft", "native"), value("accepted", "native")) == (6, 4)
    assert (value("draft", "suffix"), value("accepted", "suffix")) == (5, 2)


def test_positions_are_those_in_the_whole_draft(registry: CollectorRegistry) -> None:
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


def test_publishing_twice_counts_once(registry: CollectorRegistry) -> None:
    metrics = AcceptanceMetrics(registry)
    for _ in range(3):
        metrics.observe(Origin(SUFFIX), 2, 1)
        metrics.publish()
        metrics.publish()

    found = registry.get_sample_value("engine_spec_draft_tokens_total", {"source": "suffix"})
    assert found == 6


def test_what_drafting_decided_and_the_index_holds(registry: CollectorRegistry) -> None:
    index = SuffixIndex(1 << 20, salt=1)
    index.start("r", "t", [1])
    index.extend("r", [2, 3, 4])
    index.finish("r", keep=True)
    counters = Counters(price=0.25, paused=True)
    counters.verdicts["drafted"] = 4
    counters.fallbacks["RuntimeError"] = 1
    metrics = DraftingMetrics(registry)

    metrics.publish(counters, index.stats(), ("suffix",))
    metrics.observe_step(target=0.02, draft=0.0001, draft_cpu=0.00005, head=0.001)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("engine_spec_steps_total", verdict="drafted") == 4
    assert value("engine_spec_fallbacks_total", reason="RuntimeError") == 1
    assert value("engine_spec_price") == 0.25
    assert value("engine_spec_gate_open", source="suffix") == 0
    assert value("engine_suffix_tokens") == index.stats().tokens > 0
    assert value("engine_suffix_bytes") == index.stats().bytes
    assert value("engine_suffix_evictions_total") == 0
    assert value("engine_spec_step_seconds_sum", phase="target") == pytest.approx(0.02)
    assert value("engine_spec_step_seconds_count", phase="draft") == 1
    assert value("engine_spec_step_seconds_sum", phase="head") == pytest.approx(0.001)


def test_steps_in_which_the_head_did_not_run_are_not_counted_for_it() -> None:
    registry = CollectorRegistry()
    metrics = DraftingMetrics(registry)

    metrics.observe_step(target=0.02, draft=0.0001, draft_cpu=0.00005, head=0.0)

    assert registry.get_sample_value("engine_spec_step_seconds_count", {"phase": "head"}) == 0
