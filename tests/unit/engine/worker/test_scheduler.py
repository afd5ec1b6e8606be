"""The scheduler's own part; that it schedules is shown on the real worker (tests/e2e)."""

import warnings

import pytest

from engine.drafting import Origin
from engine.drafting.origin import SUFFIX


@pytest.fixture(scope="module", autouse=True)
def vllm() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what vllm and torch do while they are imported is theirs
        import engine.worker.scheduler  # noqa: F401


def test_each_step_says_where_its_draft_is_from() -> None:
    from engine.worker.scheduler import SourcedMetrics

    metrics = SourcedMetrics.new(8)
    metrics.expect(Origin(SUFFIX))
    metrics.observe(5, 2, detailed=True)

    assert metrics.per_step_drafted == [0x1_0005]
    assert metrics.per_step_accepted == [2]
    assert metrics.num_draft_tokens == 5
    assert metrics.histogram[2] == 1


def test_without_details_there_is_nothing_to_say() -> None:
    from engine.worker.scheduler import SourcedMetrics

    metrics = SourcedMetrics.new(8)
    metrics.expect(Origin(SUFFIX))
    metrics.observe(5, 2, detailed=False)

    assert metrics.per_step_drafted == []


def test_what_is_sent_to_the_server_is_vllms_own_type() -> None:
    import msgspec
    from vllm.v1.metrics.stats import RequestSpecDecodeMetrics

    from engine.worker.scheduler import SourcedMetrics

    metrics = SourcedMetrics.new(2)
    metrics.expect(Origin(SUFFIX))
    metrics.observe(2, 1, detailed=True)

    sent = msgspec.msgpack.encode(metrics)

    assert set(msgspec.msgpack.decode(sent)) == set(RequestSpecDecodeMetrics.__dataclass_fields__)
    received = msgspec.msgpack.decode(sent, type=RequestSpecDecodeMetrics)
    assert received.per_step_drafted == [0x1_0002]
