"""A page in a context of its own, and what tests do on it."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Page, Route

_DOCS = Path(__file__).parents[3] / "docs"
_MOST_PICTURE_BYTES = 150_000


@asynccontextmanager
async def opened(browser: Browser, **options: Any) -> AsyncIterator[Page]:
    """An empty page; at the end no script of it may have failed or been refused by the policy.

    Args:
        browser: Where to open it.
        options: Of Playwright's `new_context`.
    """
    context = await browser.new_context(**options)
    context.set_default_timeout(30_000)
    page = await context.new_page()
    wrong: list[str] = []

    def note(message: ConsoleMessage) -> None:
        # Chromium reports each answer with an error status, and each lost connection.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            wrong.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    try:
        yield page
        assert wrong == []
    finally:
        await context.close()


async def visit(page: Page, url: str, view: str = "") -> None:
    """Open a view, the playground without its name, and wait until the page knows the models."""
    await page.goto(f"{url}/#{view}" if view else f"{url}/")
    await page.locator("#state[data-kind=good]").wait_for()


async def script_requests(
    page: Page, script: dict[str, Any], off: dict[str, Any] | None = None
) -> None:
    """Let requests of the page bring a script for the fake worker.

    Args:
        page: The page.
        script: Of all requests.
        off: Of those with speculation off, if it is another one.
    """

    async def add(route: Route) -> None:
        body = dict(route.request.post_data_json)
        is_off = body["speculation"].get("mode") == "off"
        body["fake"] = off if is_off and off is not None else script
        await route.continue_(post_data=json.dumps(body))

    await page.route("**/v1/chat/completions", add)


async def ask(page: Page, prompt: str, *, compare: bool = False) -> None:
    """Send a prompt in the playground."""
    await page.set_checked("#compare", compare)
    await page.fill("#prompt", prompt)
    await page.press("#prompt", "Enter")


async def until(page: Page, expression: str, *, seconds: float = 30.0) -> None:
    """Wait until an expression is true; Playwright's own way needs `eval`, which is forbidden."""
    async with asyncio.timeout(seconds):
        while not await page.evaluate(expression):
            await page.wait_for_timeout(50)


async def save_picture(page: Page, name: str) -> None:
    """Write docs/NAME.png if PAGE_PICTURES asks for it; what is seen, not the whole page."""
    if not os.environ.get("PAGE_PICTURES"):
        return
    file = _DOCS / f"{name}.png"
    await page.screenshot(path=file)
    assert file.stat().st_size < _MOST_PICTURE_BYTES
