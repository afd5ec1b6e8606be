import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from gateway.pacing import cut, goes_on, last_character, may_go_on

# Letters, marks, emoji and their parts, flags, scripts that join, and line ends.
HARD = st.text(
    st.sampled_from("ab .\r\ne\u0301\u0308\u200d👩🔬🏽❤\ufe0f🇩🇪🇫क्षि한ᄒ\u1161你好مرح\u0600\u05d0"),
    max_size=60,
)


def clusters(text: str) -> list[str]:
    found: list[str] = regex.findall(r"\X", text)
    return found


@given(st.one_of(HARD, st.text(max_size=60)), st.integers(2, 20), st.data())
def test_a_cut_never_splits_a_character(text: str, of: int, data: st.DataObject) -> None:
    at = cut(text, data.draw(st.integers(1, of - 1)), of)

    assert 0 <= at < max(1, len(text))
    assert clusters(text[:at]) + clusters(text[at:]) == clusters(text)


@pytest.mark.parametrize(
    ("text", "tokens", "first"),
    [
        (" the quick brown fox", 1, " the"),
        (" the quick brown fox", 3, " the quick brown"),
        ("internationalization of", 1, "intern"),
    ],
)
def test_a_cut_is_before_a_word_if_one_is_near(text: str, tokens: int, first: str) -> None:
    assert text[: cut(text, tokens, 4)] == first


@pytest.mark.parametrize(
    "text",
    ["你好世界", "👩‍🔬👩‍🔬", "🇩🇪🇫🇷", "e\u0301e\u0301", "שלום"],
    ids=["chinese", "joined-emoji", "flags", "marks", "right-to-left"],
)
def test_halves_have_equally_many_characters(text: str) -> None:
    at = cut(text, 1, 2)

    assert len(clusters(text[:at])) == len(clusters(text[at:]))


@given(HARD.filter(bool))
def test_the_last_character_is_the_last(text: str) -> None:
    assert text[last_character(text) :] == clusters(text)[-1]


@given(HARD, HARD)
def test_goes_on_means_that_a_character_spans_the_border(text: str, following: str) -> None:
    expected = clusters(text + following) != clusters(text) + clusters(following)

    assert goes_on(text, following) is (expected if text and following else False)


@pytest.mark.parametrize(
    "text", ["👩", "a👩\u200d", "🇩", "🇩🇪🇫", "क्", "👍🏽", "a\r", "1\u0600"], ids=ascii
)
def test_an_end_that_is_often_continued_is_open(text: str) -> None:
    assert may_go_on(text)


@pytest.mark.parametrize("text", ["", "a", "é", "你", "🇩🇪", "שלום", " ", "\n"], ids=ascii)
def test_other_ends_are_closed(text: str) -> None:
    assert not may_go_on(text)
