"""A running fake worker and a client of it."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.fakes.worker import FakeWorker


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as started:
        yield started


@pytest.fixture
async def client(worker: FakeWorker) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=worker.url, timeout=5.0) as opened:
        yield opened
