"""A running fake worker, and the gateway in front of it."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.worker import FakeWorker
from tests.unit.gateway.application import Application, running


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder of the test's own: a gateway keeps responses there."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr("gateway.settings.cache_dir", lambda: folder)


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as started:
        yield started


@pytest.fixture
async def gateway(worker: FakeWorker) -> AsyncIterator[Application]:
    async with running(worker.url) as application:
        yield application
