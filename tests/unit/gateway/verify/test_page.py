import re

from gateway.verify.compare import Outcome, Result
from gateway.verify.page import page_of, verdict_of
from tests.unit.gateway.verify.example import RUN, SAME, compared


def test_the_page_stands_alone_and_escapes() -> None:
    page = page_of([compared(1, "<script>", SAME)], {"Model": "<img src=x>"})

    assert "<script>" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"(src|href)=['\"]|url\(|@import", page)


def test_the_verdict() -> None:
    assert verdict_of(RUN) == (
        "2 of 4 answers are identical with and without drafts, 1 part at a near-tie, 1 is a defect."
    )
    assert verdict_of([compared(1, "a", Result(Outcome.SKIPPED))]) == "Nothing was answered."
    assert "verdict bad" in page_of(RUN, {})
    assert "verdict bad" not in page_of([compared(1, "chat", SAME)], {})
