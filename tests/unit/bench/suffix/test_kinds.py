import pytest

from bench.suffix.kinds import KINDS, kinds_of

ANSWER = 'see\n```py\nx\n``` then <tool_call>{"a": 1}</tool_call>.'


@pytest.mark.parametrize(
    ("text", "kind"), [("see", "prose"), ("x", "code"), ("then", "prose"), ('"a"', "tool_call")]
)
def test_a_token_has_the_kind_of_the_part_it_begins_in(text: str, kind: str) -> None:
    (found,) = kinds_of(ANSWER, [ANSWER.index(text)], category="chat")

    assert KINDS[found] == kind


@pytest.mark.parametrize(
    ("category", "kind"), [("code", "code"), ("json_extraction", "json"), ("math", "prose")]
)
def test_an_answer_may_be_of_one_kind_as_a_whole(category: str, kind: str) -> None:
    (found,) = kinds_of("{}", [0], category=category)

    assert KINDS[found] == kind
