"""Live, in front of the real worker: charts and verdicts come by themselves."""

import httpx
import pytest
from playwright.async_api import Page

from tests.e2e.page.opened import save_picture, until, visit
from tests.e2e.service import MODEL, Service

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

BODY = {"model": MODEL, "prompt": "one two three " * 20, "max_tokens": 200, "temperature": 0}


async def test_what_was_served_appears_without_a_reload(page: Page, service: Service) -> None:
    await page.set_viewport_size({"width": 1280, "height": 1000})
    await visit(page, service.url, "live")
    await page.locator(".worker").wait_for()

    async with httpx.AsyncClient(base_url=service.url, timeout=60) as client:
        for _ in range(3):
            answer = await client.post("/v1/completions", json=BODY)
            assert answer.status_code == 200
    await until(
        page, "/L/.test(document.querySelector('#live-charts .plot .line').getAttribute('d'))"
    )
    await until(page, "/Drafts: /.test(document.querySelector('.worker').textContent)")
    await until(page, "/suffix index/.test(document.querySelector('#live-charts').textContent)")

    worker = page.locator(".worker")
    assert await worker.locator("h3").inner_text() == "local"
    assert await worker.locator(".pill").inner_text() == "up"
    assert MODEL in await worker.inner_text()
    assert await worker.locator(".sources li").count() == 3
    assert await worker.locator(".chart", has_text="Cost of a step").count() == 1
    names = await page.locator("#live-charts figcaption").all_inner_texts()
    assert names[:5] == [
        "Tokens per second",
        "Requests",
        "Acceptance",
        "Draft tokens per second",
        "Price of a draft token",
    ]
    assert "suffix index" in await page.locator(".chart", has_text="Acceptance").inner_text()
    assert await page.locator("#live-links a", has_text="Runbook").count() == 1
    await save_picture(page, "page-live")
