"""The policy as sent, and texts of attackers: none of them may run as a script."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from tests.e2e.page.opened import ask, script_requests, visit
from tests.fakes.worker import FakeWorker
from tests.integration.process import GatewayProcess, gateway_process

pytestmark = pytest.mark.asyncio(loop_scope="session")

ATTACK = '"><img src=x onerror="window.attacked=1"><script>window.attacked=1</script>'
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def assert_unharmed(page: Page) -> None:
    assert await page.locator("main img, main script, select img").count() == 0
    assert await page.evaluate("window.attacked") is None


async def test_the_policy_is_sent_and_holds(browser: Browser, gateway: GatewayProcess) -> None:
    page = await browser.new_page()  # the fixture's may refuse nothing
    answer = await page.goto(gateway.url)
    assert answer is not None

    inline = await page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.attacked = 1";
            const refused = new Promise((done) =>
                document.addEventListener("securitypolicyviolation", (event) => {
                    event.stopImmediatePropagation();
                    done(event.effectiveDirective);
                }));
            document.head.append(script);
            return refused;
        }"""
    )

    assert answer.headers["content-security-policy"] == POLICY
    assert inline == "script-src-elem"
    await assert_unharmed(page)
    await page.close()


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ({"text": ["Hello ", ATTACK]}, ".text"),
        ({"text": ["{}"], "tool_name": ATTACK}, ".call strong"),
        ({"text": ['{"city": "', ATTACK, '"}'], "tool_name": "f"}, ".call code"),
        ({"status": 400, "error": {"error": {"message": ATTACK, "code": 400}}}, ".note p"),
    ],
    ids=["answer", "tool", "arguments", "error"],
)
async def test_a_prompt_and_what_a_worker_says_stay_text(
    page: Page, gateway: GatewayProcess, script: dict[str, Any], place: str
) -> None:
    await visit(page, gateway.url)
    await script_requests(page, script)

    await ask(page, ATTACK, compare=True)
    await page.locator(".answer[aria-busy=false]").nth(1).wait_for()

    assert await page.locator(".question").inner_text() == ATTACK
    assert ATTACK in await page.locator(place).first.inner_text()
    assert ATTACK in await page.locator(place).nth(1).inner_text()
    await assert_unharmed(page)


async def test_a_models_name_stays_text(page: Page, folder: Path) -> None:
    async with FakeWorker() as worker:
        worker.state.models = [ATTACK]
        async with gateway_process(folder, worker) as gateway:
            await visit(page, gateway.url)
            await ask(page, "Hello")
            await page.locator("[data-state=done]").wait_for()
            model = await page.input_value("#model")
            await page.goto(f"{gateway.url}/#live")
            shown = await page.locator(".worker").inner_text()

    assert model == ATTACK
    assert ATTACK in shown
    await assert_unharmed(page)
