"""One frame of `specgate top`; pure: a page and the terminal's size in, a renderable out."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gateway.cli.live_page import Page, Values, Worker, fit, last_known, latest, recent_acceptance
from gateway.live import EngineReport

_WIDE = 130
"""Columns from which workers are shown beside the figures."""
_FIGURE_LINES = 14
_WORKER_LINES = 7
_SPARKS = {True: " ▁▂▃▄▅▆▇█", False: " .:-=+*#@"}
_BAR = {True: ("█", "░"), False: ("#", ".")}
_STYLES = {
    "drafting": "green", "idle": "dim", "off": "dim", "no_proposals": "dim",
    "priced_out": "yellow", "limited": "yellow", "loading": "yellow",
    "paused": "red",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a frame goes.

    Attributes:
        width: Columns.
        height: Lines; None: as many as there are.
        has_unicode: Whether it can show block characters.
    """

    width: int
    height: int | None
    has_unicode: bool


def build_frame(page: Page, screen: Screen, *, url: str, trouble: str | None) -> RenderableType:
    """Build a frame.

    Args:
        page: What the gateway answered last.
        screen: Where it is shown.
        url: Of the gateway.
        trouble: Why the gateway does not answer now; None: it does.
    """
    is_wide = screen.width >= _WIDE
    figures_width = screen.width // 2 - 2 if is_wide else screen.width
    figures = Group(*_figures(page, figures_width, screen))
    workers = Group(*_workers(page, screen))
    if not is_wide:
        return Group(_head(page, url, trouble), figures, Text(), workers)
    columns = Table.grid(padding=(0, 4, 0, 0))
    columns.add_column(width=figures_width)
    columns.add_column(ratio=1)
    columns.add_row(figures, workers)
    return Group(_head(page, url, trouble), columns)


def _head(page: Page, url: str, trouble: str | None) -> RenderableType:
    clock = time.strftime("%H:%M:%S", time.localtime(page.now))
    head = Text(f"specgate {_plain(page.version)}  {url}  {clock}", style="bold", no_wrap=True)
    lines = [head]
    if trouble is not None:
        lines.append(Text(_plain(trouble), style="red"))
    elif not page.times:
        seconds = 2 * page.every_seconds
        lines.append(Text(f"collecting: figures come after {seconds:g} s", style="yellow"))
    elif page.now - page.times[-1] > 3 * page.every_seconds:
        age = page.now - page.times[-1]
        lines.append(Text(f"the last sample is {age:.0f} s old", style="red"))
    else:
        lines.append(Text())
    return Group(*lines)


def _figures(page: Page, width: int, screen: Screen) -> Iterator[RenderableType]:
    series = page.series
    last = max(1, round(60 / page.every_seconds))

    def line(name: str, value: str, values: Values, *, most: float | None = None) -> Text:
        text = Text(no_wrap=True).append(f"{name:<13}", "cyan")
        text.append(f"{value:<25} ", style="bold")
        return text.append(_sparkline(values, max(0, width - len(text)), screen, most=most), "blue")

    tokens = latest(series.tokens_per_second)
    active, queue = (latest(values) for values in (series.active, series.queue))
    price = last_known(series.price)
    yield line("tokens/s", _number(tokens), series.tokens_per_second)
    yield line("active", f"{_number(active)}, queue {_number(queue)}", series.active)
    yield line("first token", _times(series.ttft_p50, series.ttft_p99), series.ttft_p50)
    yield line("gaps raw", _times(series.gap_raw_p50, series.gap_raw_p99), series.gap_raw_p99)
    yield line(
        "gaps paced", _times(series.gap_paced_p50, series.gap_paced_p99), series.gap_paced_p99
    )
    yield line("price", "-" if price is None else f"{price:.2f}", series.price, most=1.0)
    yield Text()
    yield Text("ACCEPTANCE, last minute", style="bold")
    if not series.acceptance:
        yield Text("no drafts", style="dim")
    for name, shares in series.acceptance.items():
        drafted, share = recent_acceptance(series.drafted_per_second[name], shares, last=last)
        text = Text(no_wrap=True).append(f"{_plain(name):<8}", "cyan")
        text.append("   -  " if share is None else f"{100 * share:4.0f} %", style="bold")
        text.append(f" {_bar(share or 0.0, 20, screen)}", style="green")
        text.append(f" {drafted:7.1f} drafted/s ")
        room = max(0, width - len(text))
        yield text.append(_sparkline(shares, room, screen, most=1.0), style="blue")


def _workers(page: Page, screen: Screen) -> Iterator[RenderableType]:
    shown = page.workers
    if screen.height is not None:
        taken = 3 if screen.width >= _WIDE else 3 + _FIGURE_LINES
        shown = shown[: max(1, (screen.height - taken) // _WORKER_LINES)]
    if not shown:
        yield Text("no workers", style="red")
    for worker in shown:
        yield from _worker(worker)
    if more := len(page.workers) - len(shown):
        yield Text(f"and {more} more workers", style="dim")


def _worker(worker: Worker) -> Iterator[RenderableType]:
    yield _worker_line(worker)
    if worker.error is not None:
        yield _indented(Text(_plain(worker.error), style="red"))
    for engine in worker.engines:
        facts = [f"engine {engine.engine}"] if len(worker.engines) > 1 else []
        facts += _engine_facts(engine)
        if facts:
            yield _indented(Text("  ".join(facts)))
        verdicts = Table.grid(padding=(0, 2, 0, 0))
        for source in engine.sources:
            verdict = Text(_plain(source.verdict), style=_STYLES.get(source.state, ""))
            verdicts.add_row(_plain(source.name), verdict)
        if engine.sources:
            yield _indented(verdicts)


def _worker_line(worker: Worker) -> Text:
    state, style = ("up", "green") if worker.up else ("down", "red")
    if worker.ejected:
        state, style = "ejected", "red"
    text = Text().append(f"{_plain(worker.worker)}  ", "bold")
    text.append(state, style=style)
    text.append(f"  {worker.in_flight} running  {' '.join(map(_plain, worker.models))}")
    if worker.ejections:
        text.append(f"  {worker.ejections} ejections", style="yellow")
    if (facts := worker.supervisor) is not None:
        text.append(f"  process {_plain(facts.state)}")
        if facts.restarts:
            restarts = f"  {facts.restarts} restarts, last: {_plain(str(facts.last_reason))}"
            text.append(restarts, style="yellow")
    return text


def _engine_facts(engine: EngineReport) -> Iterator[str]:
    if engine.price is not None:
        yield f"price {engine.price:.2f}"
    if engine.step_ms:
        tokens, ms = engine.step_ms[0]
        yield f"a step of {tokens} costs {ms:.1f} ms"
    if engine.head is not None:
        yield f"head {_plain(engine.head.name)} {_plain(engine.head.version)}"
    if (trial := engine.trial) is not None:
        pairs = f"{trial.pairs}/{trial.most_pairs}"
        yield f"{_plain(trial.role)} {_plain(trial.name)} {pairs} {trial.worth:+.3f}"


def _indented(what: RenderableType) -> Padding:
    return Padding(what, (0, 0, 0, 2))


def _sparkline(values: Values, width: int, screen: Screen, *, most: float | None) -> str:
    sparks = _SPARKS[screen.has_unicode]
    shown = fit(values, width)
    top = most or max((value for value in shown if value is not None), default=0.0) or 1.0
    steps = len(sparks) - 2
    return "".join(
        " " if value is None else sparks[1 + round(min(value / top, 1.0) * steps)]
        for value in shown
    )


def _bar(share: float, width: int, screen: Screen) -> str:
    full, empty = _BAR[screen.has_unicode]
    filled = round(min(share, 1.0) * width)
    return full * filled + empty * (width - filled)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"


def _times(p50: Values, p99: Values) -> str:
    """The last known quantiles, as `p50 75 ms  p99 99 ms`."""
    return f"p50 {_duration(last_known(p50))}  p99 {_duration(last_known(p99))}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds >= 1.0:
        return f"{seconds:.1f} s"
    ms = 1000 * seconds
    return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def _plain(text: str) -> str:
    """Text of others without what would control the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)
