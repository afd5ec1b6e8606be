"""The fake worker that load is sent to."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.worker import FakeWorker


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as running:
        yield running
