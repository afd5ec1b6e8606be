"""The report as one HTML page, without scripts or anything from elsewhere. Pure."""

from collections.abc import Mapping, Sequence
from html import escape

from gateway.verify.summary import Compared, rows_of, sentences_of, summarise

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --good: #2b8a3e; --bad: #c92a2a; }
body { max-width: 56rem; margin: 2.5rem auto; padding: 0 1rem; }
body { font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin-bottom: 0; }
.verdict { border-left: 5px solid var(--good); padding: .2rem 1rem; font-size: 1.15rem; }
.verdict.bad { border-color: var(--bad); }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .5rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
tr:last-child td { font-weight: 600; }
footer { margin-top: 2rem; opacity: .75; font-size: .9rem; }
"""


def page_of(compared: Sequence[Compared], facts: Mapping[str, str]) -> str:
    """Return the page.

    Args:
        compared: All prompts.
        facts: What was asked, and how; shown as they are.
    """
    summaries = summarise(compared)
    total = summaries[-1]
    head, *rows = rows_of(summaries)
    kind = "verdict bad" if total.defects else "verdict"
    body = [
        "<h1>Do drafts change what the model says?</h1>",
        f"<p class='{kind}'>{escape(verdict_of(compared))}</p>",
        f"<table><tr>{_cells('th', head)}</tr>",
        *(f"<tr>{_cells('td', row)}</tr>" for row in rows),
        "</table>",
        *(f"<p>{escape(sentence)}</p>" for sentence in sentences_of(compared, total)),
        "<p>A near-tie is a place where the target itself gives both tokens almost the same "
        "probability, so that the order of its sums decides. A defect is any other difference.</p>",
        "<footer>",
        *(f"<div>{escape(name)}: {escape(value)}</div>" for name, value in facts.items()),
        "</footer>",
    ]
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f"<title>specgate verify</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def verdict_of(compared: Sequence[Compared]) -> str:
    """Return the result in a sentence."""
    total = summarise(compared)[-1]
    answered = total.prompts - total.skipped
    if not answered:
        return "Nothing was answered."
    said = f"{total.same} of {answered} answers are identical with and without drafts"
    if total.near_ties:
        said += f", {total.near_ties} part at a near-tie"
    if total.defects:
        said += f", {total.defects} {'is a defect' if total.defects == 1 else 'are defects'}"
    return said + "."


def _cells(tag: str, row: Sequence[str]) -> str:
    return "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
