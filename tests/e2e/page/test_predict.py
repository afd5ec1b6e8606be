"""An edit with the file as its prediction, in front of the real worker."""

import re

import pytest
from playwright.async_api import Page

from tests.e2e.page.opened import save_picture, visit
from tests.e2e.service import Service

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]


async def test_the_prediction_is_accepted_and_the_changes_are_shown(
    page: Page, service: Service
) -> None:
    await page.set_viewport_size({"width": 1280, "height": 1250})
    await visit(page, service.url, "predict")
    await page.click("#sample")
    await page.fill("#instruction", "Repeat the file without any change.")

    await page.click("#edit-send")
    await page.locator("#edit-run [data-state=done]").wait_for()

    row = await page.locator("#edit-run dl > div", has_text="Prediction").inner_text()
    counts = re.search(r"([\d,]+) accepted, ([\d,]+) rejected", row)
    assert counts is not None
    assert int(counts[1].replace(",", "")) > 0
    assert await page.locator("#edit-run .text .prediction").count() > 0
    assert re.search(
        r"\d+ lines? added, \d+ lines? removed",
        await page.locator("#difference-count").inner_text(),
    )
    assert await page.locator("#difference-lines > *").count() > 0
    await save_picture(page, "page-predict")
