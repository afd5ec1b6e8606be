"""Chromium, a page in it, and a gateway in front of a fake worker."""

import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright

from tests.e2e.page.opened import opened
from tests.fakes.worker import FakeWorker
from tests.integration.process import GatewayProcess, gateway_process

_HERE = Path(__file__).parent
_CHROMIUM = shutil.which("chromium") or str(Path(sys.executable).with_name("chromium"))
_needs_chromium = pytest.mark.skipif(
    not Path(_CHROMIUM).exists(), reason="needs Chromium: scripts/install.sh chromium"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(_needs_chromium)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    # Chromium's sandbox refuses to run as root.
    args = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=_CHROMIUM, args=args)
        yield running
        await running.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncIterator[Page]:
    async with opened(browser) as page:
        yield page


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def worker() -> AsyncIterator[FakeWorker]:
    """A fake worker that all tests share; they put back what they change."""
    async with FakeWorker() as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def gateway(
    worker: FakeWorker, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GatewayProcess]:
    """A gateway without keys in front of `worker`."""
    async with gateway_process(tmp_path_factory.mktemp("gateway"), worker) as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder for a gateway of the test's own."""
    with tempfile.TemporaryDirectory(prefix="sg-") as name:
        yield Path(name)
