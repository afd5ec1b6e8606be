"""The gateway's event loop, fake workers, shared gateways, and the `integration` mark."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio
import uvloop

from tests.fakes.worker import FakeWorker
from tests.integration.process import GatewayProcess, gateway_process
from tests.integration.running import RunningGateway, running_gateway

_HERE = Path(__file__).parent


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run on the event loop that the gateway runs on in production."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.integration)


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_worker() -> AsyncIterator[FakeWorker]:
    """One worker for all tests of a module that leave no state behind."""
    async with FakeWorker() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gateway(shared_worker: FakeWorker) -> AsyncIterator[RunningGateway]:
    """In front of `shared_worker`, with a short silence limit; tests use the module's loop."""
    request = {"silence_seconds": 0.3}
    upstream = {"breaker_failures": 1000}
    async with running_gateway(shared_worker, request=request, upstream=upstream) as gateway:
        yield gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_process(shared_worker: FakeWorker) -> AsyncIterator[GatewayProcess]:
    """A gateway process in front of `shared_worker`; tests use the module's loop."""
    with _short_folder() as folder:
        upstream = {"breaker_failures": 1000}
        async with gateway_process(folder, shared_worker, upstream=upstream) as gateway:
            yield gateway


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder with a short path: pytest's own are too long for a Unix socket."""
    with _short_folder() as path:
        yield path


@contextmanager
def _short_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sg-") as name:
        yield Path(name)
