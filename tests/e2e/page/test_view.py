"""For everybody: axe, the keyboard, quiet live regions, dark and light, and a phone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from tests.e2e.page.opened import ask, opened, script_requests, until, visit
from tests.integration.process import GatewayProcess

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

AXE = Path(__file__).parents[1] / "node" / "node_modules" / "axe-core" / "axe.min.js"
needs_axe = pytest.mark.skipif(not AXE.exists(), reason="needs axe-core: make install-node")
ONE_ACCEPTED = {"chunks": 40, "tokens_per_chunk": 2}


async def violations(page: Page) -> list[str]:
    await page.evaluate(AXE.read_text(encoding="utf-8"))
    found: dict[str, Any] = await page.evaluate("axe.run()")
    assert len(found["passes"]) > 10
    return [f"{one['id']}: {node['html']}" for one in found["violations"] for node in one["nodes"]]


async def all_views(page: Page, gateway: GatewayProcess) -> AsyncIterator[str]:
    """Show each view with as much on it as there can be."""
    await visit(page, gateway.url)
    yield "playground, empty"
    await script_requests(page, ONE_ACCEPTED)
    await page.check("#logprobs")
    await ask(page, "Hello", compare=True)
    await page.locator(".verdict[data-outcome=done]").wait_for()
    await script_requests(page, {"error_frame_after_chunks": 2})
    await page.select_option("#format", "tools")
    await ask(page, "Hello again")
    await page.locator("[data-state=failed]").wait_for()
    yield "playground, with answers"
    await page.unroute("**/v1/chat/completions")
    await page.click("nav a[data-view=predict]")
    await page.click("#sample")
    await page.click("#edit-send")
    await page.locator("#difference").wait_for()
    yield "predict"
    await page.click("nav a[data-view=live]")
    await page.locator(".worker").wait_for()
    yield "live"
    await page.evaluate("document.getElementById('key-dialog').showModal()")
    yield "key dialog"


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing(browser: Browser, gateway: GatewayProcess, scheme: str) -> None:
    views = []
    async with opened(browser, color_scheme=scheme) as page:
        async for view in all_views(page, gateway):
            assert await violations(page) == [], view
            views.append(view)

    assert len(views) == 5


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
async def test_nothing_is_wider_than_the_window(
    browser: Browser, gateway: GatewayProcess, width: int
) -> None:
    widths = {}
    async with opened(browser, viewport={"width": width, "height": 800}) as page:
        async for view in all_views(page, gateway):
            widths[view] = await page.evaluate("document.documentElement.scrollWidth")

    assert widths == dict.fromkeys(widths, width)


async def test_the_colours_follow_the_system(browser: Browser, gateway: GatewayProcess) -> None:
    lightness = {}
    for scheme in ("light", "dark"):
        async with opened(browser, color_scheme=scheme) as page:
            await visit(page, gateway.url)
            lightness[scheme] = await page.evaluate(
                "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
            )

    assert lightness["light"] > 200
    assert lightness["dark"] < 50


async def test_sources_differ_by_their_lines_also_without_colours(
    page: Page, gateway: GatewayProcess
) -> None:
    await visit(page, gateway.url)

    lines = await page.locator(".legend span").evaluate_all(
        """all => all.map((one) => {
            const { textDecorationLine, textDecorationStyle } = getComputedStyle(one);
            return `${textDecorationLine} ${textDecorationStyle}`;
        })"""
    )

    assert len(set(lines)) == len(lines) == 5


async def test_everything_can_be_done_with_the_keyboard(
    page: Page, gateway: GatewayProcess
) -> None:
    await visit(page, gateway.url)
    await script_requests(page, {"chunks": 3})
    focused = """() => {
        const it = document.activeElement;
        return it.id || it.dataset.view || it.textContent.trim();
    }"""
    order = []
    for _ in range(17):
        await page.keyboard.press("Tab")
        order.append(await page.evaluate(focused))

    await page.focus("#compare")
    await page.keyboard.press("Space")
    await page.focus("#prompt")
    await page.keyboard.type("One")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("two")
    await page.keyboard.press("Enter")
    await page.locator("[data-state=done]").wait_for()
    await page.keyboard.press("Shift+Tab")
    in_answer = await page.evaluate("document.activeElement.className")
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowRight")
    detail = await page.locator(".detail").inner_text()
    await page.keyboard.press("ArrowLeft")
    await page.focus("nav a[data-view=live]")
    await page.keyboard.press("Enter")
    await page.locator("#live").wait_for()

    assert order == [
        "Skip to the content", "playground", "predict", "live", "model",
        "Count", "Code", "Repeat", "Story", "prompt", "clear", "send",
        "compare", "together", "logprobs", "max-tokens", "format",
    ]  # fmt: skip
    assert await page.locator(".question").inner_text() == "One\ntwo"
    assert in_answer == "text"
    assert detail == '" hello": model'


async def test_a_stream_is_not_read_out_token_by_token(page: Page, gateway: GatewayProcess) -> None:
    await visit(page, gateway.url)
    await script_requests(page, {"chunks": 100, "gap_seconds": 0.005})
    await page.evaluate(
        """() => {
            window.said = [];
            const selector = "[role=status], [role=alert], [aria-live]";
            new MutationObserver((all) => {
                for (const { target } of all) {
                    const element = target.closest ? target : target.parentElement;
                    const region = element.closest(selector);
                    if (region) said.push(region.textContent);
                }
            }).observe(document.body, { childList: true, characterData: true, subtree: true });
        }"""
    )

    await ask(page, "Hello")
    await page.locator("[data-state=done]").wait_for()
    await until(page, "said.some((text) => text.startsWith('Answer done'))")

    said = await page.evaluate("said")
    assert said[0] == "Asked."
    assert said[-1].startswith("Answer done: 100 tokens")
    assert len(set(said)) <= 3


async def test_the_prompt_stays_in_sight_unless_the_reader_scrolls_away(
    page: Page, gateway: GatewayProcess
) -> None:
    in_sight = "document.getElementById('ask').getBoundingClientRect().bottom <= innerHeight"
    await page.set_viewport_size({"width": 900, "height": 500})
    await visit(page, gateway.url)
    await script_requests(page, {"chunks": 60, "gap_seconds": 0.01, "text": [" a line\n"]})

    await ask(page, "Hello")
    await page.locator("[data-state=done]").wait_for()
    await until(page, in_sight)
    scrolled = await page.evaluate("scrollY")
    await ask(page, "Again")
    await page.locator(".answer").nth(1).locator(".text span").nth(20).wait_for()
    await page.evaluate("scrollTo(0, 0)")
    await page.locator("[data-state=done]").nth(1).wait_for()

    assert scrolled > 1000
    assert await page.evaluate("scrollY") == 0


async def test_live_asks_only_while_it_can_be_seen(page: Page, gateway: GatewayProcess) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    await visit(page, gateway.url, "live")
    await page.locator(".worker").wait_for()
    await page.wait_for_timeout(6000)
    while_seen = asked.count("live")
    await page.click("nav a[data-view=playground]")
    await page.wait_for_timeout(6000)

    assert while_seen == 2
    assert asked.count("live") == while_seen
