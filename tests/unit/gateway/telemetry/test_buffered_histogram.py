import asyncio
from collections.abc import Sequence

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from gateway.telemetry.buffered_histogram import BufferedHistogram, Histogram
from tests.unit.gateway.virtual_time import run_in_virtual_time

BUCKETS = (0.01, 0.1, 1.0)
VALUES = st.sampled_from([0.0, 0.005, 0.01, 0.011, 0.1, 0.5, 1.0, 1.5, 100.0])


class Tallied:
    """A buffered histogram, and a plain one that observes the same values one by one."""

    def __init__(self) -> None:
        self.registry, self.plain_registry = CollectorRegistry(), CollectorRegistry()
        histogram = Histogram("gap", "", ["side"], buckets=BUCKETS, registry=self.registry)
        self.buffered = BufferedHistogram(histogram.labels("a"), BUCKETS)
        self.plain = prometheus_client.Histogram(
            "gap", "", ["side"], buckets=BUCKETS, registry=self.plain_registry
        )

    def observe(self, observations: Sequence[tuple[float, int]]) -> None:
        for value, times in observations:
            self.buffered.observe(value, times)
            for _ in range(times):
                self.plain.labels("a").observe(value)

    @property
    def seen(self) -> dict[str, float]:
        return samples_of(self.registry)

    @property
    def expected(self) -> dict[str, float]:
        return samples_of(self.plain_registry)


def samples_of(registry: CollectorRegistry) -> dict[str, float]:
    return {
        sample.name + sample.labels.get("le", ""): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


@given(st.lists(st.tuples(VALUES, st.integers(1, 5)), min_size=1, max_size=20))
def test_the_result_equals_single_observations(
    observations: list[tuple[float, int]],
) -> None:
    async def scenario() -> None:
        tallied = Tallied()
        half = len(observations) // 2
        tallied.observe(observations[:half])
        tallied.buffered.flush()
        tallied.observe(observations[half:])
        tallied.buffered.flush()
        tallied.buffered.flush()

        assert tallied.seen == pytest.approx(tallied.expected)

    run_in_virtual_time(scenario())


def test_observations_are_visible_within_a_second() -> None:
    async def scenario() -> None:
        tallied = Tallied()
        for _ in range(3):
            tallied.observe([(0.05, 2)])
            await asyncio.sleep(1.0)

            assert tallied.seen == pytest.approx(tallied.expected)

    run_in_virtual_time(scenario())
