"""The page's modules by themselves, in the browser: traces, differences and figures."""

from typing import Any

import pytest
from playwright.async_api import Page

from tests.integration.process import GatewayProcess

pytestmark = pytest.mark.asyncio(loop_scope="session")

LAY_OUT = """async (steps) => {
    const { TraceLayout } = await import(new URL("page/trace.js", document.baseURI));
    const layout = new TraceLayout();
    const taken = steps.map((step) => {
        if (step === "separate") layout.separate();
        else if (typeof step === "string") layout.addText(step);
        else layout.addEntries(step);
        return layout.take();
    });
    return [...taken, layout.rest()].map((all) => all.map(({ source, text }) => [source, text]));
}"""


@pytest.mark.parametrize(
    ("steps", "taken"),
    [
        (
            ["Hello world", [["target", 5], ["suffix", 6]]],
            [[], [["target", "Hello"], ["suffix", " world"]], []],
        ),
        (
            [[["target", 2], ["head", 1]], "a", "bc"],
            [[], [], [["target", "ab"], ["head", "c"]], []],
        ),
        (
            [[["target", 0], ["suffix", 1]], "🙂", [["target", 0]]],
            [[["target", ""]], [["suffix", "🙂"]], [["target", ""]], []],
        ),
        ([[["native", 3]], "a"], [[], [], [["native", None], [None, "a"]]]),
        (["a", [["unheard-of", 1]]], [[], [["target", "a"]], []]),
        (
            ["ab", [["target", 1]], "separate", [["suffix", 9]], "c"],
            [[], [["target", "a"]], [[None, "b"]], [["suffix", None]], [[None, "c"]], []],
        ),
    ],
    ids=["together", "trace-first", "no-text", "cut-off", "unknown-source", "parsed"],
)
async def test_a_trace_is_laid_over_its_text(
    page: Page, gateway: GatewayProcess, steps: list[Any], taken: list[Any]
) -> None:
    await page.goto(gateway.url)

    assert await page.evaluate(LAY_OUT, steps) == taken


async def test_figures_are_counted_from_the_chunks(page: Page, gateway: GatewayProcess) -> None:
    await page.goto(gateway.url)

    found = await page.evaluate(
        """async () => {
            const address = new URL("page/figures.js", document.baseURI);
            const { Figures, write } = await import(address);
            const figures = new Figures();
            const before = [figures.tokensPerSecond, figures.seconds, figures.tokensPerStep];
            figures.begin();
            const wait = () => new Promise((done) => setTimeout(done, 50));
            await wait();
            figures.add({ speculation: { trace: [["target", 4]] } });
            await wait();
            figures.add({ speculation: { trace: [["suffix", 3], ["suffix", 0], ["target", 1]] } });
            figures.add({
                usage: { completion_tokens: 4 },
                metrics: { speculative_decoding: { sources: {
                    suffix: { drafted: 5, accepted: 2 },
                    head: { drafted: 1, accepted: 0 },
                } } },
            });
            const { tokens, counts, drafted, accepted, tokensPerStep } = figures;
            return {
                before, tokens, counts, drafted, accepted, tokensPerStep,
                rate: figures.tokensPerSecond * (figures.seconds - figures.firstTokenSeconds),
                isLate: figures.firstTokenSeconds >= 0.05,
                numbers: [write.number(12.34), write.number(1234), write.percent(0.615)],
                times: [write.time(0.0123), write.time(2.56)],
                nothing: [write.share(1, 0), write.count(null)],
            };
        }"""
    )

    assert found["before"] == [None, None, None]
    assert (found["tokens"], found["counts"]) == (4, {"target": 2, "suffix": 2})
    assert (found["drafted"], found["accepted"], found["tokensPerStep"]) == (6, 2, 2.0)
    assert found["rate"] == pytest.approx(3.0)
    assert found["isLate"]
    assert found["numbers"] == ["12.3", "1,234", "62 %"]
    assert found["times"] == ["12 ms", "2.6 s"]
    assert found["nothing"] == ["\u2013", "\u2013"]


async def test_the_difference_of_two_files(page: Page, gateway: GatewayProcess) -> None:
    await page.goto(gateway.url)
    found = await page.evaluate(
        """async () => {
            const address = new URL("page/diff.js", document.baseURI);
            const { changes, withoutFence } = await import(address);
            const lines = (...texts) => changes(...texts).map(({ kind, text }) => [kind, text]);
            return {
                edit: lines("a\\nb\\nc\\nd\\n", "a\\nx\\nc\\nd\\ne"),
                same: lines("a\\n", "a"),
                empty: lines("", "a"),
                fence: withoutFence("```python\\na\\nb\\n```\\n"),
                plain: withoutFence("a ``` b"),
            };
        }"""
    )

    assert found == {
        "edit": [
            ["same", "a"],
            ["removed", "b"],
            ["added", "x"],
            ["same", "c"],
            ["same", "d"],
            ["added", "e"],
        ],
        "same": [["same", "a"]],
        "empty": [["added", "a"]],
        "fence": "a\nb",
        "plain": "a ``` b",
    }
