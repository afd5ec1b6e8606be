import json
from itertools import islice

import pytest

from bench.exact.made_up import made_up
from gateway.verify import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_many_prompts_that_are_the_same_in_every_run(kind: str) -> None:
    bodies = [json.dumps(body) for body in islice(made_up(kind, 1), 80)]

    assert len(set(bodies)) == 80
    assert bodies == [json.dumps(body) for body in islice(made_up(kind, 1), 80)]
    assert bodies != [json.dumps(body) for body in islice(made_up(kind, 2), 80)]


@pytest.mark.parametrize("kind", KINDS)
def test_no_placeholder_is_left(kind: str) -> None:
    for body in islice(made_up(kind, 1), 80):
        texts = [message["content"] for message in body["messages"]]
        texts += [*body.get("stop", ()), body.get("structured_outputs", {}).get("grammar", "")]
        assert not any("{name" in text or "{number" in text or "{word" in text for text in texts)


@pytest.mark.parametrize(
    ("kind", "member"),
    [
        ("grammar", "structured_outputs"),
        ("json_schema", "response_format"),
        ("parallel_tools", "tools"),
        ("stop", "stop"),
        ("streamed_tool", "stream"),
        ("tool", "tool_choice"),
    ],
)
def test_a_kind_has_what_makes_it_one(kind: str, member: str) -> None:
    assert all(body[member] for body in islice(made_up(kind, 1), 80))


def test_a_word_is_the_same_in_all_places_of_a_prompt() -> None:
    queries = [
        (body["messages"][0]["content"], body["structured_outputs"]["grammar"])
        for body in islice(made_up("grammar", 1), 80)
        if "SELECT" in body["structured_outputs"]["grammar"]
    ]

    assert queries
    for asked, grammar in queries:
        table = asked.split("the ")[1].split(" ")[0]
        assert f"FROM {table} WHERE" in grammar


def test_templates_that_have_no_more_end() -> None:
    assert 80 < len(list(made_up("language", 1))) < 1000
