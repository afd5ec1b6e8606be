"""The report as one HTML page without scripts, fonts or images from elsewhere. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from engine.tuning.choice import scores
from engine.tuning.findings import About, Findings

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
.answer { border-left: 4px solid #2a6fb5; padding: .4em 1em; background: #8881; }
table { border-collapse: collapse; margin: .5em 0 1em; }
td, th { padding: .2em .8em; text-align: right; border-bottom: 1px solid #8884; }
td:first-child, th:first-child { text-align: left; }
svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.note { opacity: .8; font-size: .92em; }
"""
_COLOURS = ("#7a7a7a", "#2a6fb5", "#b5482a", "#3d8a4e", "#8a4e9e", "#a08020")
_PLACES = 8
_WIDTH, _LABEL, _BAR, _GAP = 760, 130, 18, 14

Row = Sequence[str]


def page_of(found: Findings, about: About, failed: Mapping[str, str]) -> str:
    """Return the page.

    Args:
        found: What was measured.
        about: Where and with what.
        failed: Variants whose worker failed, and why.
    """
    title = f"Drafters for {about.model}"
    sections = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(_subject(about))}</p>",
        f"<p class='answer'>{escape(_answer(found))}</p>",
        *_goodput(found),
        *_alone(found, failed),
        *_acceptance(found),
        *_head(found),
        *_method(found),
    ]
    head = (
        "<meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    )
    body = "\n".join(sections)
    return f"<!doctype html>\n<html lang='en'><head>{head}</head><body>\n{body}\n</body></html>\n"


def _subject(about: About) -> str:
    return (
        f"{about.prompts} prompts of {about.workload}, greedy, on {about.processor}, {about.date}."
    )


def _answer(found: Findings) -> str:
    ranked, judged = scores(found.judged), found.judged
    others = [name for name in ranked if name != found.chosen]
    second = max(others, key=lambda name: ranked[name])
    ratio = ranked[found.chosen] / ranked[second]
    said = [f"Recommended: {found.chosen}."]
    if ratio >= 1.0:
        said.append(f"Over all concurrencies it is {ratio:.2f} times as fast as {second}.")
    else:
        said.append(
            f"Over all concurrencies it reaches {ratio:.3f} of {second}, which is within the "
            "noise, and it is simpler."
        )
    for load, name in found.is_best_at().items():
        if name != found.chosen:
            share = judged[found.chosen][load] / judged[name][load]
            said.append(f"At concurrency {load} {name} is faster: it reaches {share:.3f} of that.")
    if "off" in found.simulation and found.chosen != "off":
        known = judged if "off" in judged else found.simulation
        gains = ", ".join(
            f"{known[found.chosen][load] / known['off'][load]:.2f} with {load}"
            for load in found.seats
        )
        kind = "" if known is judged and found.rounds else " (simulated)"
        said.append(f"Over no drafts{kind}: {gains}.")
    if not found.rounds:
        said.append("There was no time to confirm this on the real worker: it is simulated.")
    return " ".join(said)


def _goodput(found: Findings) -> Iterator[str]:
    yield "<h2>Goodput by concurrency</h2>"
    yield "<p>Tokens per second of all clients together, prompts included.</p>"
    for load, seats in found.seats.items():
        waits = "" if seats == load else f", of which {seats} run at once"
        clients = "client" if load == 1 else "clients"
        yield f"<h3>{load} {clients}{waits}</h3>"
        yield _bars(found, load)
    rows = []
    for name in found.order:
        row = [name]
        for load in found.seats:
            row.append(f"{found.simulation[name][load]:.0f}")
            values = found.rounds.get(name, {}).get(load)
            confirmed = f"{found.confirmed[name][load]:.0f}" if values else ""
            row.append(f"{confirmed} ({min(values):.0f} to {max(values):.0f})" if values else "")
        rows.append(row)
    head = ["drafters"]
    for load in found.seats:
        head += [f"{load}, simulated", f"{load}, confirmed"]
    yield _table(head, rows)
    best = "; ".join(f"{load}: {name}" for load, name in found.is_best_at().items())
    yield f"<p>The fastest by clients: {escape(best)}.</p>"


def _bars(found: Findings, load: int) -> str:
    values = {name: found.confirmed.get(name, found.simulation[name])[load] for name in found.order}
    most = max(values.values())
    height = len(values) * (_BAR + _GAP)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">']
    for number, (name, value) in enumerate(values.items()):
        top = number * (_BAR + _GAP)
        length = (_WIDTH - _LABEL - 170) * value / most
        colour = _COLOURS[number % len(_COLOURS)]
        kind = "" if name in found.rounds else " simulated"
        middle = top + _BAR - 4
        parts += [
            f'<text x="{_LABEL - 8}" y="{middle}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{_LABEL}" y="{top}" width="{length:.1f}" height="{_BAR}" fill="{colour}" '
            f'fill-opacity="{0.5 if kind else 1}"/>',
            f'<text x="{_LABEL + length + 8:.1f}" y="{middle}">{value:.0f}{kind}</text>',
        ]
    return "".join([*parts, "</svg>"])


def _alone(found: Findings, failed: Mapping[str, str]) -> Iterator[str]:
    yield "<h2>One client, and memory</h2>"
    rows = [
        [
            name,
            f"{one.goodput:.1f}",
            str(one.requests),
            f"{one.tokens / one.requests:.0f}",
            f"{one.prefill_seconds / one.requests * 1e3:.0f}",
            f"{one.memory_mib:.0f}",
            f"{one.start_seconds:.0f}",
            f"{found.scale[name]:.2f}",
        ]
        for name, one in ((name, found.measured[name]) for name in found.order)
    ]
    head = ["drafters", "tokens/s", "requests", "tokens each", "first token, ms", "memory, MiB"]
    yield _table([*head, "start, s", "simulated / measured"], rows)
    for name, why in failed.items():
        yield f"<p>{escape(name)} was left out: {escape(why)}</p>"


def _acceptance(found: Findings) -> Iterator[str]:
    yield "<h2>Acceptance by place</h2>"
    yield "<p>Accepted over drafted tokens at each place of a draft, one client, with the gate.</p>"
    rows = []
    for name in found.order:
        one = found.measured[name]
        for source, drafted in one.drafted.items():
            accepted = one.accepted.get(source, [0] * len(drafted))
            pairs = list(zip(accepted, drafted, strict=True))
            shares = [f"{right / of:.2f}" if of else "" for right, of in pairs[:_PLACES]]
            total = sum(drafted)
            rows.append(
                [f"{name}: {source}", str(total), f"{sum(accepted) / max(1, total):.2f}", *shares]
            )
    places = [str(place) for place in range(1, _PLACES + 1)]
    yield _table(["drafters: source", "drafted", "all", *places], rows)


def _head(found: Findings) -> Iterator[str]:
    yield "<h2>What training a head would bring</h2>"
    if found.head_brings is None:
        yield "<p>A head, or a drafter like one, is at hand: it is in the figures above.</p>"
        return
    brings = ", ".join(f"{ratio:.2f} with {load}" for load, ratio in found.head_brings.items())
    yield (
        f"<p>An estimate: times the speed of the index alone, by clients: {escape(brings)}. "
        "Simulated with a head whose first three tokens survive with 0.49, 0.25 and 0.13 "
        "(docs/measurements/heads.md), whatever the text, and whose pass takes a tenth of a step. "
        "<code>specgate train</code> makes one.</p>"
    )


def _method(found: Findings) -> Iterator[str]:
    yield "<h2>How</h2>"
    confirmed = ", ".join(found.rounds) or "none"
    yield (
        "<p class='note'>Each variant answered the same prompts on a worker of its own, one after "
        "the other. Its answers were replayed through a simulated engine with the least step times "
        "that the workers learnt here. All simulated figures are scaled alike, so that they agree "
        "on average with what was measured for one client. The choice is made by the geometric "
        "mean over the concurrencies of goodput over the best variant's, so each concurrency "
        "counts alike; of variants that are level within the noise, the simplest is taken. "
        f"Confirmed on real workers in turn, with equal prompts: {escape(confirmed)}; "
        f"rounds: {found.count_rounds}. Drafts never change the answers. All variants have the "
        "gate, which drafts only what pays.</p>"
    )


def _table(head: Row, rows: Sequence[Row]) -> str:
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += [
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    ]
    return f"<table>{''.join(lines)}</table>"
