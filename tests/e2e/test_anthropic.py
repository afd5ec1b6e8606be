"""Anthropic's SDK for Python against the real worker, through the gateway."""

from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic, NotFoundError
from anthropic.types import ToolParam

from tests.e2e.service import MODEL, Service

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

WEATHER: ToolParam = {
    "name": "weather",
    "description": "The weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "enum": ["Paris", "Rome"]},
            "days": {"type": "integer", "enum": [1, 2]},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}
ASKING: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 200,
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
}


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[Anthropic]:
    with Anthropic(base_url=service.url, api_key="none", max_retries=0, timeout=60) as made:
        yield made


def check_input(called: Any) -> None:
    assert called.type == "tool_use"
    assert called.name == "weather"
    assert called.input.keys() == {"city", "days"}
    assert called.input["city"] in {"Paris", "Rome"}
    assert called.input["days"] in {1, 2}


def test_messages_whole_and_streamed(client: Anthropic) -> None:
    whole = client.messages.create(**ASKING | {"max_tokens": 16})
    with client.messages.stream(**ASKING | {"max_tokens": 16}) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()

    assert whole.content[0].text
    assert whole.usage.output_tokens > 0
    assert text == last.content[0].text
    assert last.stop_reason in ("end_turn", "max_tokens")


@pytest.mark.parametrize(
    "choice", [{"type": "any"}, {"type": "tool", "name": "weather"}], ids=["any", "named"]
)
def test_a_tools_input_follows_its_schema(client: Anthropic, choice: dict[str, Any]) -> None:
    answer = client.messages.create(**ASKING, tools=[WEATHER], tool_choice=choice)

    (called,) = [block for block in answer.content if block.type == "tool_use"]
    check_input(called)
    assert answer.stop_reason == "tool_use"


def test_a_streamed_tools_input_follows_its_schema(client: Anthropic) -> None:
    with client.messages.stream(**ASKING, tools=[WEATHER], tool_choice={"type": "any"}) as stream:
        answer = stream.get_final_message()

    (called,) = [block for block in answer.content if block.type == "tool_use"]
    check_input(called)


def test_the_result_of_a_tool_is_taken(client: Anthropic) -> None:
    conversation = [
        *ASKING["messages"],
        {
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": "t1",
                    "name": "weather",
                    "input": {"city": "Paris", "days": 1},
                }
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Sunny."}],
        },
    ]

    answer = client.messages.create(
        **ASKING | {"messages": conversation, "max_tokens": 16}, tools=[WEATHER]
    )

    assert answer.content


def test_an_unknown_model_raises_not_found(client: Anthropic) -> None:
    with pytest.raises(NotFoundError):
        client.messages.create(**ASKING | {"model": "claude-99"})
