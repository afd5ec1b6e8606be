from random import Random

import pytest

from loadtest.load.made_up import MadeUpPrompts
from loadtest.load.scenario import Kind, Traffic


def traffic(kind: Kind, *, words: int = 80, turns: int = 1) -> Traffic:
    return Traffic.model_validate(
        {
            "name": "t",
            "prompts": kind,
            "prompt_words": {"low": words, "high": words},
            "output_tokens": {"low": 1, "high": 1},
            "turns": turns,
        }
    )


@pytest.mark.parametrize("kind", ["chat", "code", "edit", "session", "document"])
def test_the_same_seed_makes_up_the_same_and_another_one_something_else(kind: Kind) -> None:
    first, again, other = (
        MadeUpPrompts().draw(traffic(kind, turns=3), Random(seed)) for seed in (1, 1, 2)
    )

    assert first == again
    assert first != other


@pytest.mark.parametrize("kind", ["edit", "document"])
def test_a_prompt_has_about_the_requested_length(kind: Kind) -> None:
    (turn,) = MadeUpPrompts().draw(traffic(kind, words=500), Random(0)).turns

    words = len(turn.messages[0]["content"].split())

    assert 500 <= words <= 600


def test_a_session_has_its_turns_and_a_tool_call_as_every_reply() -> None:
    conversation = MadeUpPrompts().draw(traffic("session", turns=4), Random(0))

    assert len(conversation.turns) == 4
    assert all(turn.reply.startswith("<tool_call>") for turn in conversation.turns)
    assert conversation.turns[0].messages[0]["role"] == "system"
    assert "<tool_response>" in conversation.turns[1].messages[0]["content"]
