import pytest

from gateway.verify.summary import sentences_of, summarise, table_of
from tests.unit.gateway.verify.example import RUN


def test_each_kind_and_all() -> None:
    chat, tool, grammar, total = summarise(RUN)

    assert (chat.same, chat.near_ties, chat.defects, chat.first_place) == (1, 1, 0, 7)
    assert (tool.same, tool.defects, tool.first_place) == (1, 1, 3)
    assert (grammar.skipped, grammar.identical, grammar.plain_speed) == (1, None, None)
    assert (total.kind, total.prompts, total.same, total.skipped) == ("all", 5, 2, 1)
    assert total.identical == 0.5
    assert total.plain_speed == pytest.approx(5.0)
    assert total.speedup == pytest.approx(8.0 / 3.25)


def test_the_table() -> None:
    assert table_of(summarise(RUN)) == (
        "kind     prompts  identical  near-ties  defects  skipped  first difference\n"
        "chat           2      50.0%          1        0        0           token 8\n"
        "tool           2      50.0%          0        1        0           token 4\n"
        "grammar        1          -          0        0        1                 -\n"
        "all            5      50.0%          1        1        1           token 4\n"
    )


def test_each_difference_has_a_sentence() -> None:
    assert list(sentences_of(RUN, summarise(RUN)[-1])) == [
        "5.0 tokens/s without drafts, 12.3 with: 2.46 times.",
        "near-tie: chat, line 2, token 8, margin 0.125",
        "defect: tool, line 4, token 4, margin 2: a token that is less likely",
    ]
