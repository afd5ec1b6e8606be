"""The playground in front of the real worker: what it shows agrees with what the answer reports."""

import json
from collections import Counter
from typing import Any

import pytest
from playwright.async_api import Page

from tests.e2e.page.opened import ask, save_picture, visit
from tests.e2e.service import MODEL, Service

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

PROMPT = "Count: one two three one two three one two"
SOURCES = ("target", "suffix", "head", "native", "prediction")


async def finished(page: Page, *, answers: int = 1) -> None:
    await page.locator("[data-state=done]").nth(answers - 1).wait_for()


async def keep_streams(page: Page) -> None:
    """Let the page keep the streams that it reads."""
    await page.add_init_script(
        """
        const fetchAsBefore = fetch;
        window.streams = [];
        window.fetch = async (...given) => {
            const answer = await fetchAsBefore(...given);
            if (/completions/.test(answer.url)) streams.push(answer.clone().text());
            return answer;
        };
        """
    )


async def kept_chunks(page: Page) -> list[dict[str, Any]]:
    """The chunks of the first stream that it has kept."""
    frames = (await page.evaluate("streams[0]")).split("\n\n")
    data = [frame.removeprefix("data: ") for frame in frames if frame.startswith("data: {")]
    return [json.loads(text) for text in data]


async def number(page: Page, selector: str) -> int:
    return int((await page.locator(selector).inner_text()).replace(",", ""))


async def test_the_colours_add_up_to_usage_and_metrics(page: Page, service: Service) -> None:
    await keep_streams(page)
    await visit(page, service.url)

    await ask(page, PROMPT)
    await finished(page)

    chunks = await kept_chunks(page)
    text = "".join(
        chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"]
    )
    last = chunks[-1]
    entries = [entry for chunk in chunks for entry in chunk.get("speculation", {}).get("trace", ())]
    shown = {
        source: await number(page, f"tr[data-source={source}] td >> nth=0")
        for source in SOURCES
        if await page.locator(f"tr[data-source={source}]").count()
    }
    spans = Counter(
        await page.locator(".text span").evaluate_all("all => all.map(span => span.className)")
    )
    found = last["metrics"]["speculative_decoding"]
    drafted = sum(source["drafted"] for source in found["sources"].values())
    accepted = sum(source["accepted"] for source in found["sources"].values())
    assert sum(shown.values()) == len(entries) == last["usage"]["completion_tokens"]
    assert sum(shown.values()) - shown["target"] == accepted > 0
    assert shown["suffix"] == found["sources"]["suffix"]["accepted"]
    assert spans == Counter(source for source, length in entries if length)
    assert await page.locator(".text").evaluate("node => node.textContent") == text
    vain = await page.locator(".figures dl > div", has_text="Drafted in vain").inner_text()
    assert f"{drafted - accepted:,} of {drafted:,}" in vain


async def test_comparing_says_the_gain_and_that_the_text_is_the_same(
    page: Page, service: Service
) -> None:
    await page.set_viewport_size({"width": 1100, "height": 1120})
    await visit(page, service.url)

    await page.fill("#max-tokens", "80")
    await ask(page, "Write a Python class Point with __init__, __add__ and __sub__.", compare=True)
    await finished(page, answers=2)
    verdict = page.locator(".verdict[data-outcome=done]")
    await verdict.wait_for()

    assert "in all. The text is the same." in await verdict.inner_text()
    assert "times as fast" in await verdict.inner_text()
    on, off = page.locator(".answer").nth(0), page.locator(".answer").nth(1)
    assert await on.locator(".text .suffix, .text .head").count() > 0
    assert await off.locator(".text .suffix, .text .head").count() == 0
    assert await on.locator(".text").inner_text() == await off.locator(".text").inner_text()
    await page.evaluate("scrollTo(0, 0)")
    await save_picture(page, "page-playground")


async def test_probabilities_are_shown_where_asked_for(page: Page, service: Service) -> None:
    await visit(page, service.url)
    await page.check("#logprobs")

    await ask(page, "Say hello.")
    await finished(page)
    await page.locator(".text").focus()
    await page.keyboard.press("ArrowRight")
    first = await page.locator(".detail").inner_text()
    await page.keyboard.press("ArrowRight")
    second = await page.locator(".detail").inner_text()

    assert "%" in first
    assert "instead of" in first
    assert second != first


async def test_json_follows_the_schema(page: Page, service: Service) -> None:
    await visit(page, service.url)
    await page.select_option("#format", "json")

    await ask(page, "A person named Ada.")
    await finished(page)

    found = json.loads(await page.locator(".text").inner_text())
    assert {"name", "age", "hobbies"} <= found.keys()


async def test_a_tool_is_called(page: Page, service: Service) -> None:
    await visit(page, service.url)
    await page.select_option("#format", "tools")
    await page.select_option("#tool-choice", "required")

    await ask(page, "What is the weather in Paris?")
    await finished(page)

    assert await page.locator(".call strong").inner_text() == "get_weather"
    assert "city" in json.loads(await page.locator(".call code").inner_text())
    total = await page.locator(".figures dl > div", has_text="Tokens").first.inner_text()
    assert await page.locator(".strip .cell").count() == int(total.split()[-1])


async def test_stopping_keeps_what_has_arrived(page: Page, service: Service) -> None:
    await visit(page, service.url)
    await page.fill("#max-tokens", "4000")

    await ask(page, "Tell a very long story about a lighthouse.")
    await page.locator(".text span").nth(5).wait_for()
    await page.click("#stop")
    await page.locator("[data-state=stopped]").wait_for()

    assert await page.locator(".text span").count() > 5
    assert await page.locator("#stop").is_hidden()
    service.wait_ready()


async def test_the_conversation_goes_on(page: Page, service: Service) -> None:
    await visit(page, service.url)
    await ask(page, "My name is Ada.")
    await finished(page)

    async with page.expect_request("**/v1/chat/completions") as asked:
        await ask(page, "What is my name?")
    await finished(page, answers=2)

    request = await asked.value
    messages = request.post_data_json["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"] == await page.locator(".text").first.inner_text()
    assert request.post_data_json["model"] == MODEL
