from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.application import running
from tests.unit.gateway.serving.served import Served

PREDICTION = {"prediction": {"type": "content", "content": "ab"}}


async def test_another_worker_tokenizes_when_one_is_not_there() -> None:
    async with FakeWorker() as first, FakeWorker() as second:
        async with running(first.url, second.url) as application:
            services = application.services
            await eventually(lambda: all(worker.up for worker in services.pool.workers))
            await first.stop()
            served = [await Served(more=PREDICTION).by(services) for _ in range(10)]

        assert all(each.error is None for each in served)
        sent = [request.json()["vllm_xargs"] for request in second.requests]
        assert [xargs["specgate_prediction"] for xargs in sent] == [[97, 98]] * 10
