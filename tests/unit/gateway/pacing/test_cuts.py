import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from gateway.pacing import cut, goes_on, may_go_on

# Letters, marks, emoji and their parts, flags, scripts that join, and line ends.
HARD = st.text(
    st.sampled_from("ab .\r\ne\u0301\u0308\u200d👩🔬🏽❤\ufe0f🇩🇪🇫क्षि한ᄒ\u1161你好مرح\u0600\u05d0"),
    max_size=60,
)


def clusters(text: str) -> list[str]:
    found: list[str] = regex.findall(r"\X", text)
    return found


@given(st.one_of(HARD, st.text(max_size=60)), st.integers(1, 20))
def test_parts_are_whole_characters_and_together_the_text(text: str, parts: int) -> None:
    pieces = cut(text, parts)

    assert "".join(pieces) == text
    assert 1 <= len(pieces) <= parts
    assert [c for piece in pieces for c in clusters(piece)] == clusters(text)
    assert all(pieces) or not text


def test_parts_begin_with_words() -> None:
    assert cut(" the quick brown fox", 4) == [" the", " quick", " brown", " fox"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [("你好世界", 4), ("👩‍🔬👩‍🔬", 2), ("🇩🇪🇫🇷", 2), ("e\u0301e\u0301", 2), ("שלום", 4)],
    ids=["chinese", "joined-emoji", "flags", "marks", "right-to-left"],
)
def test_each_part_has_as_many_characters(text: str, parts: int) -> None:
    assert [len(clusters(piece)) for piece in cut(text, parts)] == [
        len(clusters(text)) // parts
    ] * parts


@given(HARD, HARD)
def test_goes_on_says_whether_a_character_spans_the_border(text: str, following: str) -> None:
    expected = clusters(text + following) != clusters(text) + clusters(following)

    assert goes_on(text, following) is (expected if text and following else False)


@pytest.mark.parametrize(
    "text", ["👩", "a👩\u200d", "🇩", "🇩🇪🇫", "क्", "👍🏽", "a\r", "1\u0600"], ids=ascii
)
def test_an_end_that_is_often_gone_on_with_is_open(text: str) -> None:
    assert may_go_on(text)


@pytest.mark.parametrize("text", ["", "a", "é", "你", "🇩🇪", "שלום", " ", "\n"], ids=ascii)
def test_an_end_that_seldom_is_gone_on_with_is_not(text: str) -> None:
    assert not may_go_on(text)
