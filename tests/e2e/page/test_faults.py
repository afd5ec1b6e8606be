"""Restarts, broken streams, keys, and a page that is switched off or behind a prefix."""

import signal
from pathlib import Path

import pytest
from playwright.async_api import Page, Route

from tests.e2e.page.opened import ask, script_requests, visit
from tests.fakes.keys import issue_key
from tests.fakes.worker import FakeWorker
from tests.integration.process import ALONE, GatewayProcess, gateway_process

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]


async def test_a_restart_of_the_gateway_loses_nothing(
    page: Page, folder: Path, worker: FakeWorker
) -> None:
    settings = {
        "drain": {"accept_seconds": 0.0, "finish_seconds": 0.1},
        "upstream": {"probe_seconds": 0.2},
    }
    async with gateway_process(folder, worker, **settings) as first:
        port = first.port
        await visit(page, first.url)
        await ask(page, "Finished before.")
        await page.locator("[data-state=done]").wait_for()
        await script_requests(page, {"chunks": 3000, "gap_seconds": 0.05})
        await ask(page, "Broken by the restart.")
        await page.locator(".answer").nth(1).locator(".text span").nth(3).wait_for()
        await page.fill("#prompt", "Typed meanwhile.")
        first.signal(signal.SIGKILL)
        await first.ended()

    broken = page.locator(".answer").nth(1)
    await page.locator("[data-state=failed]").wait_for()
    await page.locator("#state[data-kind=warning]").wait_for()
    words = await broken.locator(".note p").inner_text()
    kept = await broken.locator(".text").inner_text()
    await page.unroute("**/v1/chat/completions")
    again = folder / "again"
    again.mkdir()
    async with gateway_process(again, worker, **settings, port=port):
        await page.locator("#state[data-kind=good]").wait_for()
        assert await page.input_value("#prompt") == "Typed meanwhile."
        assert await page.locator(".answer").first.locator(".text span").count() == 8
        await broken.locator("button", has_text="Try again").click()
        await page.locator("[data-state=done]").nth(1).wait_for()
        assert await broken.locator(".text span").count() == 8
        assert await broken.locator(".note").is_hidden()

    assert "tokens had arrived; they stay." in words
    assert kept.startswith(" hello hello hello")


async def test_live_goes_on_after_a_restart(page: Page, folder: Path, worker: FakeWorker) -> None:
    async with gateway_process(folder, worker) as first:
        port = first.port
        await visit(page, first.url, "live")
        await page.locator(".worker").wait_for()
        first.signal(signal.SIGKILL)
        await first.ended()
    await page.locator("#live-note.error").wait_for()
    assert await page.locator(".worker").count() == 1

    again = folder / "again"
    again.mkdir()
    async with gateway_process(again, worker, port=port):
        await page.locator("#live-note:not(.error)").wait_for()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"status": 429, "headers": {"retry-after": "1"}}, "Try again in 1 s."),
        ({"error_frame_after_chunks": 2}, "2 tokens had arrived; they stay."),
        ({"drop_after_chunks": 2}, "2 tokens had arrived; they stay."),
    ],
    ids=["refused", "failed", "lost"],
)
async def test_errors_are_said_in_words(
    page: Page, gateway: GatewayProcess, script: dict[str, object], words: str
) -> None:
    await visit(page, gateway.url)
    await script_requests(page, script)

    await ask(page, "Hello")
    await page.locator("[data-state=failed]").wait_for()

    assert words in await page.locator(".note p").inner_text()
    assert await page.locator(".note button").inner_text() == "Try again"


async def test_input_that_cannot_be_sent_is_explained(page: Page, gateway: GatewayProcess) -> None:
    await visit(page, gateway.url)
    await page.select_option("#format", "json")
    await page.fill("#schema", "{")

    await ask(page, "Hello")

    assert "Schema: not JSON." in await page.locator("#ask-error").inner_text()
    assert await page.input_value("#prompt") == "Hello"
    assert await page.locator(".answer").count() == 0


async def test_a_key_is_asked_for_and_kept_in_this_tab_only(
    page: Page, folder: Path, worker: FakeWorker
) -> None:
    key = issue_key(folder / "keys")
    async with gateway_process(folder, worker, keys={"file": str(folder / "keys")}) as gateway:
        await page.goto(gateway.url)
        await page.locator("#key-dialog").wait_for()
        await page.fill("#key", "wrong")
        await page.press("#key", "Enter")
        await page.locator("#key-reason:not([hidden])").wait_for()
        await page.fill("#key", key)
        await page.press("#key", "Enter")
        await page.locator("#state[data-kind=good]").wait_for()
        await ask(page, "Hello")
        await page.locator("[data-state=done]").wait_for()
        await page.reload()
        await page.locator("#state[data-kind=good]").wait_for()
        kept = await page.evaluate(
            "[{...sessionStorage}, {...localStorage}, document.cookie, location.href]"
        )
        other = await page.context.new_page()
        await other.goto(gateway.url)
        await other.locator("#key-dialog").wait_for()
        await page.click("#key-button")
        await page.click("#key-forget")
        await page.locator("#state[data-kind=warning]").wait_for()
        forgotten = await page.evaluate("sessionStorage.length")

    assert kept == [{"specgate.key": key}, {}, "", f"{gateway.url}/"]
    assert forgotten == 0


async def test_it_works_behind_a_prefix(page: Page, gateway: GatewayProcess) -> None:
    prefix = f"{gateway.url}/some/prefix"

    async def strip(route: Route) -> None:
        assert route.request.url.startswith(f"{prefix}/")
        await route.continue_(url=route.request.url.replace("/some/prefix", ""))

    await page.route("**/*", strip)

    await visit(page, prefix)
    await ask(page, "Hello")
    await page.locator("[data-state=done]").wait_for()
    await page.click("nav a[data-view=live]")
    await page.locator(".worker").wait_for()


async def test_without_the_setting_there_is_nothing(
    page: Page, folder: Path, worker: FakeWorker
) -> None:
    async with gateway_process(folder, worker, command=ALONE, page=False) as gateway:
        answer = await page.goto(gateway.url)

    assert answer is not None
    assert answer.status == 404
