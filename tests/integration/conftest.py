"""The loop of the gateway, a fake worker, and the mark of this room."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from tests.fakes.worker import FakeWorker

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


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder with a short path: pytest's own are too long for a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="sg-") as name:
        yield Path(name)
