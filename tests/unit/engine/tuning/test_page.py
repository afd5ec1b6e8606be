import re
from html.parser import HTMLParser

import pytest

from engine.tuning.findings import About
from engine.tuning.page import page_of
from tests.unit.engine.tuning.figures import ABOUT, findings


class Text(HTMLParser):
    """What a reader sees, and which elements there are."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.seen.append(data)


def read(page: str) -> tuple[str, set[str]]:
    parser = Text()
    parser.feed(page)
    return " ".join(parser.seen), parser.tags


def test_it_says_what_is_recommended_and_where_it_is_not_the_best() -> None:
    text, _ = read(page_of(findings(), ABOUT, {}))

    assert "Recommended: suffix+head." in text
    assert "At concurrency 8 suffix is faster: it reaches 0.962 of that." in text
    assert "Over no drafts (simulated): 1.50 with 1, 1.25 with 8." in text


def test_a_near_tie_is_called_one() -> None:
    text, _ = read(page_of(findings(chosen="suffix"), ABOUT, {}))

    assert "which is within the noise, and it is simpler" in text


def test_it_needs_nothing_from_elsewhere() -> None:
    page = page_of(findings(), ABOUT, {})

    assert not re.search(r"https?:|src=|url\(|@import", page)
    assert "script" not in read(page)[1]
    assert "color-scheme: light dark" in page


def test_texts_of_others_cannot_become_elements() -> None:
    about = About("<script>m", "<img src=x>", 1, "<b>p", "2026-11-28", None)

    text, tags = read(page_of(findings(), about, {"head": "<iframe>"}))

    assert not {"script", "img", "b", "iframe"} & tags
    assert "<script>m" in text
    assert "<iframe>" in text


def test_acceptance_by_place_is_shown() -> None:
    text, _ = read(page_of(findings(), ABOUT, {}))

    assert "suffix+head: suffix 14 0.43 0.50 0.25" in text


@pytest.mark.parametrize(
    ("brings", "said"),
    [
        pytest.param(None, "is at hand", id="there is one"),
        pytest.param({1: 1.25, 8: 1.1}, "1.25 with 1, 1.10 with 8", id="an estimate"),
    ],
)
def test_it_says_what_a_head_would_bring(brings: dict[int, float] | None, said: str) -> None:
    text, _ = read(page_of(findings(head_brings=brings), ABOUT, {}))

    assert said in text


def test_what_was_not_confirmed_says_so() -> None:
    text, _ = read(page_of(findings(rounds={}), ABOUT, {}))

    assert "There was no time to confirm this on the real worker" in text
