import json

import pytest

from gateway.admission import Caller, KeyLimits
from gateway.api import Services
from gateway.types import Acceptance, SourceCount, Usage
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.application import running
from tests.unit.gateway.serving.served import Served

LIMITED = Caller("acme", "k", KeyLimits(tokens_per_minute=1000))


async def tokens_left(services: Services) -> int:
    async with services.admission.enter(LIMITED) as entry:
        await entry.run(estimated_tokens=0)
        entry.used_tokens = 0
        return int(dict(entry.headers)[b"x-ratelimit-remaining-tokens"])


async def test_a_whole_answer_is_relayed_and_recorded(worker: FakeWorker) -> None:
    async with running(worker.url) as application:
        served = await Served(chunks=3, drafted=10, accepted=6).by(application.services)

    record = served.record
    assert served.error is None
    assert (served.sink.status, served.sink.ended) == (200, True)
    assert json.loads(served.sink.body)["object"] == "chat.completion"
    assert (record.outcome, record.attempts, record.model) == ("completed", 1, "fake-model")
    assert record.usage == Usage(7, 3)
    assert record.acceptance is not None
    assert record.acceptance.sources == {"native": SourceCount(10, 6)}
    assert record.stream_end is None


async def test_a_stream_is_relayed_and_recorded(worker: FakeWorker) -> None:
    async with running(worker.url) as application:
        served = await Served(stream=True, chunks=3, drafted=4, accepted=2).by(application.services)

    record = served.record
    assert served.sink.body.endswith(b"data: [DONE]\n\n")
    assert b'"usage":{' not in served.sink.body
    assert (record.outcome, record.stream_end, record.stream) == ("completed", "completed", True)
    assert record.usage == Usage(7, 3)
    assert isinstance(record.acceptance, Acceptance)
    assert record.first_token_seconds is not None
    count = ("gateway_inter_token_seconds_count", {"stage": "client"})
    await eventually(lambda: application.registry.get_sample_value(*count) == 2)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_refusal_by_the_worker_costs_nothing(worker: FakeWorker, stream: bool) -> None:
    async with running(worker.url) as application:
        served = await Served(stream=stream, caller=LIMITED, status=400).by(application.services)
        left = await tokens_left(application.services)

    assert served.error is not None
    assert (served.error.status, served.error.outcome) == (400, "caller_error")
    assert not served.sink.started
    assert left == 1000


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_the_true_usage_replaces_the_estimate(worker: FakeWorker, stream: bool) -> None:
    async with running(worker.url) as application:
        served = await Served(stream=stream, caller=LIMITED, chunks=3).by(application.services)
        left = await tokens_left(application.services)

    assert (b"x-ratelimit-limit-tokens", b"1000") in served.sink.headers
    assert left == 1000 - 7 - 3


async def test_a_stream_that_ends_early_is_charged_with_what_has_gone_by(
    worker: FakeWorker,
) -> None:
    async with running(worker.url) as application:
        await Served(stream=True, caller=LIMITED, drop_after_chunks=5).by(application.services)
        left = await tokens_left(application.services)

    assert left == 1000 - 7 - 5


async def test_without_a_count_the_estimate_is_kept(worker: FakeWorker) -> None:
    async with running(worker.url) as application:
        await Served(stream=True, caller=LIMITED, drop_after_chunks=0).by(application.services)
        left = await tokens_left(application.services)

    assert left < 900
