import pytest

from gateway.admission import Caller, KeyLimits
from gateway.errors import ModelNotFoundError, NoHealthyWorkerError, PermissionDeniedError
from tests.fakes.worker import FakeWorker
from tests.unit.gateway.application import running
from tests.unit.gateway.serving.served import Served


@pytest.mark.parametrize("model", ["fake-model", None], ids=["named", "meant"])
async def test_a_key_for_other_models_reaches_no_worker(
    worker: FakeWorker, model: str | None
) -> None:
    caller = Caller("acme", "k", KeyLimits(), models=("other",))
    async with running(worker.url) as application:
        served = await Served(model=model, caller=caller).by(application.services)

    assert isinstance(served.error, PermissionDeniedError)
    assert (served.error.status, served.error.param) == (403, "model")
    assert worker.requests == []


async def test_an_unknown_model_reaches_no_worker_and_no_label(worker: FakeWorker) -> None:
    async with running(worker.url) as application:
        served = await Served(model="nope").by(application.services)

    assert isinstance(served.error, ModelNotFoundError)
    assert (served.record.model, served.record.attempts) == ("unknown", 0)
    assert worker.requests == []


async def test_a_request_waits_for_a_model_not_known_yet() -> None:
    settings = {"request": {"wait_for_worker_seconds": 0.05}}
    async with running("http://127.0.0.1:1", ready=False, **settings) as application:
        served = await Served(model="perhaps").by(application.services)

    assert isinstance(served.error, NoHealthyWorkerError)
    assert served.record.model == "unknown"
