"""The official OpenAI SDK for Python against the real worker, through the gateway."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageParam,
)

from tests.e2e.service import MODEL, Service

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

COUNTING = "Repeat exactly: one two three one two three one two three one two three"


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def ask(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


def schema_of(**choices: list[str]) -> dict[str, Any]:
    """Return the schema of an object whose members are one of some strings each."""
    return {
        "type": "object",
        "properties": {name: {"type": "string", "enum": enum} for name, enum in choices.items()},
        "required": list(choices),
        "additionalProperties": False,
    }


def speculation_of(answer: ChatCompletion | ChatCompletionChunk) -> dict[str, Any]:
    assert answer.model_extra is not None
    found: dict[str, Any] = answer.model_extra["metrics"]["speculative_decoding"]
    return found


def completion_tokens(answer: ChatCompletion) -> int:
    assert answer.usage is not None
    return answer.usage.completion_tokens


def test_models_are_listed_without_a_path(client: OpenAI) -> None:
    (model,) = client.models.list()

    assert model.id == MODEL
    assert (model.model_extra or {})["root"] == MODEL


def test_chat_answers_with_usage_and_acceptance(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=ask(COUNTING), max_tokens=48, temperature=0
    )

    found = speculation_of(answer)
    assert answer.choices[0].message.content
    assert completion_tokens(answer) > 0
    sources = found["sources"]
    assert sources.keys() <= {"suffix", "head"}
    assert sum(of["drafted"] for of in sources.values()) == found["num_draft_tokens"] > 0
    assert sum(of["accepted"] for of in sources.values()) == found["num_accepted_draft_tokens"]


PREDICTED = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi"


@pytest.mark.parametrize("as_parts", [False, True], ids=["string", "parts"])
def test_a_right_prediction_is_accepted_and_reported(client: OpenAI, as_parts: bool) -> None:
    def answer(**fields: Any) -> ChatCompletion:
        created: ChatCompletion = client.chat.completions.create(
            model=MODEL, messages=ask(COUNTING), max_tokens=24, temperature=0, **fields
        )
        return created

    # What the model says, not what it was told to: small models repeat badly.
    text = answer(extra_body={"speculation": {"mode": "off"}}).choices[0].message.content
    assert text
    content: Any = [{"type": "text", "text": text}] if as_parts else text
    predicted = answer(prediction={"type": "content", "content": content})

    assert predicted.usage is not None
    details = predicted.usage.completion_tokens_details
    assert details is not None
    assert details.accepted_prediction_tokens is not None
    assert details.rejected_prediction_tokens is not None
    assert details.accepted_prediction_tokens > 0
    found = speculation_of(predicted)["sources"]["suffix"]
    assert details.accepted_prediction_tokens <= found["accepted"]


def test_a_wrong_prediction_is_rejected_and_the_answer_is_another(client: OpenAI) -> None:
    """That it changes no token is shown in float32, tests/e2e/exactness/test_control.py."""
    predicted = "0 1 2 3 4 5 6 7 8 9"

    answer = client.chat.completions.create(
        model=MODEL,
        messages=ask("Say hello."),
        prediction={"type": "content", "content": predicted},
        max_tokens=16,
        temperature=0,
    )

    assert predicted not in (answer.choices[0].message.content or "")
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    rejected = answer.usage.completion_tokens_details.rejected_prediction_tokens
    assert rejected is not None
    assert rejected > 0


def test_a_streams_usage_tells_of_the_prediction(client: OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=ask(f"Repeat exactly: {PREDICTED}"),
            prediction={"type": "content", "content": PREDICTED},
            max_tokens=24,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )

    usage = chunks[-1].usage
    assert usage is not None
    details = usage.completion_tokens_details
    assert details is not None
    accepted, rejected = details.accepted_prediction_tokens, details.rejected_prediction_tokens
    assert accepted is not None
    assert rejected is not None
    assert accepted + rejected >= len(PREDICTED.split())


def test_no_speculation_means_no_draft(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL,
        messages=ask(COUNTING),
        max_tokens=24,
        temperature=0,
        extra_body={"speculation": {"mode": "off"}},
    )

    assert speculation_of(answer)["num_draft_tokens"] == 0


def test_chat_streams_text_and_one_usage_chunk_when_asked(client: OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=ask(COUNTING),
            max_tokens=32,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )

    with_usage = [chunk for chunk in chunks if chunk.usage is not None]
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text
    assert with_usage == chunks[-1:]
    assert chunks[-1].choices == []
    assert "sources" in speculation_of(chunks[-1])


def test_chat_stream_has_no_usage_when_not_asked(client: OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=ask("Say hello."), max_tokens=8, stream=True
        )
    )

    assert all(chunk.choices for chunk in chunks)
    assert all("usage" not in chunk.model_fields_set for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason in ("stop", "length")


def test_completions_whole_and_streamed(client: OpenAI) -> None:
    whole = client.completions.create(model=MODEL, prompt="a b c a b c a b", max_tokens=8)
    pieces = [
        chunk.choices[0].text
        for chunk in client.completions.create(
            model=MODEL, prompt="a b c a b c a b", max_tokens=8, stream=True
        )
    ]

    assert whole.choices[0].text
    assert "".join(pieces)


def test_logprobs_come_for_each_token(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=ask("Say hello."), max_tokens=5, logprobs=True, top_logprobs=2
    )

    logprobs = answer.choices[0].logprobs
    tokens = (logprobs and logprobs.content) or []
    assert len(tokens) == completion_tokens(answer) > 0
    assert all(token.logprob <= 0 and len(token.top_logprobs) == 2 for token in tokens)


def test_n_gives_as_many_choices(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=ask("Say hello."), max_tokens=5, n=3, temperature=1
    )

    assert [choice.index for choice in answer.choices] == [0, 1, 2]


def test_n_streams_every_choice_to_its_end(client: OpenAI) -> None:
    chunks = client.chat.completions.create(
        model=MODEL, messages=ask("Say hello."), max_tokens=5, n=2, temperature=1, stream=True
    )

    ends = [c.choices[0].index for c in chunks if c.choices[0].finish_reason]
    assert sorted(ends) == [0, 1]


def test_stop_string_ends_the_text(client: OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt="1 2 3 4 5 6 7 1 2 3 4", max_tokens=24, temperature=0, stop=["7"]
    )

    assert "7" not in answer.choices[0].text
    assert answer.choices[0].finish_reason == "stop"


def test_seed_repeats_a_sample(client: OpenAI) -> None:
    def sample() -> str:
        return client.completions.create(
            model=MODEL, prompt="Once upon a time", max_tokens=12, temperature=1, seed=7
        ).choices[0].text  # fmt: skip

    sample()  # the first fills the prefix cache, which may change a rounding

    assert sample() == sample()


def test_json_schema_shapes_the_output(client: OpenAI) -> None:
    schema = schema_of(answer=["yes", "no"])
    answer = client.chat.completions.create(
        model=MODEL,
        messages=ask("Is water wet? Answer in JSON."),
        max_tokens=40,
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
    )

    assert json.loads(answer.choices[0].message.content)["answer"] in ("yes", "no")


def test_named_tool_is_called(client: OpenAI) -> None:
    schema = schema_of(city=["Paris", "Rome"])
    answer = client.chat.completions.create(
        model=MODEL,
        messages=ask("What is the weather in Paris?"),
        max_tokens=100,
        temperature=0,
        tools=[{"type": "function", "function": {"name": "weather", "parameters": schema}}],
        tool_choice={"type": "function", "function": {"name": "weather"}},
    )

    (call,) = answer.choices[0].message.tool_calls or []
    assert isinstance(call, ChatCompletionMessageFunctionToolCall)
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_required_tools_arguments_follow_its_schema(client: OpenAI, stream: bool) -> None:
    schema = schema_of(city=["Paris", "Rome"])
    fields: dict[str, Any] = {
        "model": MODEL,
        "messages": ask("How is the weather in Paris?"),
        "max_tokens": 200,
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": schema}}],
        "tool_choice": "required",
    }

    if stream:
        with client.chat.completions.stream(**fields) as events:
            answer = events.get_final_completion()
    else:
        answer = client.chat.completions.create(**fields)

    for call in answer.choices[0].message.tool_calls:
        assert json.loads(call.function.arguments)["city"] in {"Paris", "Rome"}


def test_a_tool_beyond_the_grammar_is_no_error(client: OpenAI) -> None:
    beyond = {"type": "string", "pattern": r"\bword\b"}
    schema: dict[str, object] = {"type": "object", "properties": {"it": beyond}}
    answer = client.chat.completions.create(
        model=MODEL,
        messages=ask("Say hello."),
        max_tokens=8,
        tools=[{"type": "function", "function": {"name": "look", "parameters": schema}}],
    )

    assert answer.choices[0].finish_reason


def test_responses_whole_and_streamed(client: OpenAI) -> None:
    whole = client.responses.create(model=MODEL, input="Say hello.", max_output_tokens=8)
    events = list(
        client.responses.create(model=MODEL, input="Say hello.", max_output_tokens=8, stream=True)
    )

    assert whole.output_text
    assert events[0].type == "response.created"
    assert events[-1].type in ("response.completed", "response.incomplete")
    assert any(event.type == "response.output_text.delta" for event in events)


def test_a_conversation_is_continued_as_if_it_had_been_sent_whole(client: OpenAI) -> None:
    limits: dict[str, Any] = {"model": MODEL, "max_output_tokens": 12, "temperature": 0}
    first = client.responses.create(input="My name is Ada. Say hello.", **limits)
    second = client.responses.create(
        input="What is my name?", previous_response_id=first.id, **limits
    )
    whole = [
        {"role": "user", "content": "My name is Ada. Say hello."},
        *(item.to_dict() for item in first.output),
        {"role": "user", "content": "What is my name?"},
    ]
    by_hand = client.responses.create(input=whole, store=False, **limits)

    assert second.previous_response_id == first.id
    assert second.usage.input_tokens == by_hand.usage.input_tokens > first.usage.input_tokens
    assert second.output_text == by_hand.output_text


def test_a_streamed_response_is_kept_and_deleted(client: OpenAI) -> None:
    limits: dict[str, Any] = {"model": MODEL, "max_output_tokens": 8}
    first = client.responses.create(input="Say hello.", **limits)
    events = list(
        client.responses.create(
            input="Again.", previous_response_id=first.id, stream=True, **limits
        )
    )
    last = events[-1].response

    assert last.previous_response_id == first.id
    assert client.responses.retrieve(last.id) == last
    (item,) = client.responses.input_items.list(last.id)
    assert item.to_dict()["content"] == [{"type": "input_text", "text": "Again."}]

    client.responses.delete(last.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(last.id)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(input="And?", previous_response_id=last.id, **limits)
    assert caught.value.code == "previous_response_not_found"


def test_the_result_of_a_tool_continues_its_call(client: OpenAI) -> None:
    parameters = schema_of(city=["Rome", "Oslo"])
    tool: Any = {"type": "function", "name": "weather", "parameters": parameters, "strict": True}
    limits: dict[str, Any] = {"model": MODEL, "max_output_tokens": 64, "temperature": 0}
    called = client.responses.create(
        input="How is the weather in Oslo?", tools=[tool], tool_choice="required", **limits
    )
    (call,) = [item for item in called.output if item.type == "function_call"]
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "It snows."}

    answer = client.responses.create(
        input=[result], tools=[tool], previous_response_id=called.id, **limits
    )

    assert answer.usage.input_tokens > called.usage.input_tokens
    assert answer.status in ("completed", "incomplete")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        pytest.param({"max_tokens": -1}, "max_tokens", id="a worker's refusal"),
        pytest.param({"stream": "yes"}, "stream", id="the gateway's refusal"),
        pytest.param(
            {"speculation": {"mode": "warp"}}, "speculation.mode", id="an unknown speculation mode"
        ),
    ],
)
def test_bad_fields_raise_bad_request(
    client: OpenAI, fields: dict[str, object], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=ask("hi"), extra_body=fields)

    assert param in str(caught.value.param)
    assert caught.value.type == "invalid_request_error"


def test_too_long_a_prompt_has_openais_code(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=ask("hi " * 9000))

    assert caught.value.code == "context_length_exceeded"


def test_unknown_model_raises_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-99", messages=ask("hi"))

    assert caught.value.code == "model_not_found"


def test_embeddings_of_a_generating_model_are_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model=MODEL, input="hi")


def test_speculation_field_is_taken_and_not_forwarded(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL,
        messages=ask("Say hello."),
        max_tokens=4,
        extra_body={"speculation": {"mode": "off", "max_draft_tokens": 4}},
    )

    assert answer.choices[0].finish_reason
