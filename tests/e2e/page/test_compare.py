"""Comparisons: what is sent, in which order, and what is said of the two answers."""

import pytest
from playwright.async_api import Page

from tests.e2e.page.opened import ask, script_requests, visit
from tests.fakes.worker import FakeWorker
from tests.integration.process import GatewayProcess

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

SLOW = {"chunks": 20, "gap_seconds": 0.02}


async def verdict(page: Page) -> str:
    await page.locator(".verdict[data-outcome=done]").last.wait_for()
    return await page.locator(".verdict[data-outcome=done]").last.inner_text()


async def test_the_place_where_the_texts_differ_is_named(
    page: Page, gateway: GatewayProcess
) -> None:
    await visit(page, gateway.url)
    await script_requests(page, {"text": ["One 🙂 two"]}, off={"text": ["One 🙂 three"]})

    await ask(page, "Hello", compare=True)

    found = await verdict(page)
    assert "Too short to compare the speed" in found
    assert 'The texts differ from character 8 on: "One 🙂 two" with' in found
    assert '"One 🙂 three" without' in found


async def test_the_second_waits_for_the_first_and_both_are_greedy(
    page: Page, gateway: GatewayProcess, worker: FakeWorker
) -> None:
    await visit(page, gateway.url)
    await script_requests(page, SLOW, off={**SLOW, "gap_seconds": 0.04})
    await page.uncheck("#compare")
    await page.fill("#temperature", "0.7")
    worker.forget_requests()

    await ask(page, "Hello", compare=True)
    found = await verdict(page)

    on, off = worker.requests
    assert on.json()["vllm_xargs"]["specgate_mode"] == "auto"
    assert off.json()["vllm_xargs"]["specgate_mode"] == "off"
    assert on.json()["temperature"] == off.json()["temperature"] == 0
    assert on.json()["messages"] == off.json()["messages"]
    assert on.json()["cache_salt"] != off.json()["cache_salt"]
    assert off.received_at - on.received_at > 0.3
    assert "times as fast" in found
    assert "The text is the same." in found


async def test_both_may_run_at_the_same_time(
    page: Page, gateway: GatewayProcess, worker: FakeWorker
) -> None:
    await visit(page, gateway.url)
    await script_requests(page, {**SLOW, "gap_seconds": 0.1})
    await page.check("#together")
    worker.forget_requests()

    await ask(page, "Hello", compare=True)
    await verdict(page)

    first, second = worker.requests
    assert second.received_at - first.received_at < 1.0


async def test_a_prompt_that_is_asked_again_is_marked(page: Page, gateway: GatewayProcess) -> None:
    await visit(page, gateway.url)

    await ask(page, "Hello")
    await page.locator("[data-state=done]").wait_for()
    first = await page.locator(".run > .quiet").is_visible()
    await page.click("#clear")
    await ask(page, "Hello")
    await page.locator("[data-state=done]").wait_for()

    assert not first
    assert "Asked before on this page" in await page.locator(".run > .quiet").inner_text()
