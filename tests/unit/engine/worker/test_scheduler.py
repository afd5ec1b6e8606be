"""Our part of the scheduler; tests/e2e shows that it schedules."""

import msgspec
from vllm.v1.metrics.stats import RequestSpecDecodeMetrics

from engine.drafting import Origin
from engine.drafting.origin import SUFFIX
from engine.worker.scheduler import SourcedMetrics


def test_each_step_encodes_the_source_of_its_draft() -> None:
    metrics = SourcedMetrics.new(8)
    metrics.expect(Origin(SUFFIX))
    metrics.observe(5, 2, detailed=True)

    assert metrics.per_step_drafted == [0x1_0005]
    assert metrics.per_step_accepted == [2]
    assert metrics.num_draft_tokens == 5
    assert metrics.histogram[2] == 1


def test_only_fields_of_vllm_are_sent_to_the_server() -> None:
    metrics = SourcedMetrics.new(2)
    metrics.expect(Origin(SUFFIX))
    metrics.observe(2, 1, detailed=True)

    sent = msgspec.msgpack.encode(metrics)

    assert set(msgspec.msgpack.decode(sent)) == set(RequestSpecDecodeMetrics.__dataclass_fields__)
    received = msgspec.msgpack.decode(sent, type=RequestSpecDecodeMetrics)
    assert received.per_step_drafted == [0x1_0002]
