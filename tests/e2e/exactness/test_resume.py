"""Answers resumed behind tokens that were sent already are those of an undisturbed run."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.protocol.resumption import Progress, Seam
from gateway.protocol.sse import data_frame, data_of
from tests.e2e.exactness.answers import Frames
from tests.e2e.exactness.prompts import make_prompts, make_prose
from tests.e2e.exactness.worker import Body, Worker
from tests.e2e.service import MODEL

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

TOKENS = 40
RIVERS = [{"role": "user", "content": "Name three rivers and say where they end."}]
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": CITY}}
ASKED: dict[str, Body] = {
    "completion": {"prompt": make_prompts(1, seed=90)[0]},
    "chat": {"messages": RIVERS},
    "presence penalty": {"prompt": make_prose(1, seed=91)[0], "presence_penalty": 1.5},
    "frequency penalty": {"messages": RIVERS, "frequency_penalty": 0.8},
    "repetition penalty": {"prompt": make_prose(1, seed=92)[0], "repetition_penalty": 1.3},
    "stop": {"prompt": "Alice was beginning to get very tired of", "stop": [" sitting", ". S"]},
    "least tokens": {"messages": RIVERS, "min_tokens": 30, "stop": ["\n"]},
    "forbidden words": {"prompt": make_prose(1, seed=94)[0], "bad_words": ["and", "the"]},
    "regular expression": {
        "prompt": "Colours:",
        "structured_outputs": {"regex": "( [a-z]{3,9},){5} [0-9]{4}"},
    },
    "JSON schema": {
        "messages": RIVERS,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "city", "schema": CITY, "strict": True},
        },
    },
}


def resumed(body: Body, tokens: Sequence[int], **xargs: Any) -> dict[str, Any]:
    return {**body, "vllm_xargs": {"specgate_resume": list(tokens), **xargs}}


@pytest.mark.parametrize("name", ASKED)
def test_a_resumed_answer_is_that_of_an_undisturbed_run(
    name: str, plain: Worker, speculating: Worker
) -> None:
    body = {"max_tokens": TOKENS, **ASKED[name]}
    whole = plain.ask(body)
    tokens = whole.token_ids
    assert len(tokens) > 3

    found = speculating.ask_all([resumed(body, tokens[:cut]) for cut in range(1, len(tokens), 3)])

    assert found == [whole] * len(found)


def test_a_long_answer_whose_blocks_are_cached_is_resumed(speculating: Worker) -> None:
    body = {"messages": RIVERS, "max_tokens": 400, "ignore_eos": True}
    whole = speculating.ask(body)

    again = speculating.ask(resumed(body, whole.token_ids[:390]))

    assert again == whole


def test_chunks_tell_the_ids_that_resume_a_stream(speculating: Worker) -> None:
    body = {
        "messages": RIVERS,
        "max_tokens": TOKENS,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    whole = speculating.stream(body)
    seen: list[int] = []
    with speculating.streaming({**body, "vllm_xargs": {"specgate_ids": 1}}) as chunks:
        for chunk in chunks:
            seen += chunk.get("specgate_ids", [])
            if len(seen) > 9:
                break

    with speculating.streaming(resumed(body, seen, specgate_ids=1)) as rest:
        rest_chunks = list(rest)

    first = next(chunk for chunk in rest_chunks if "specgate_ids" in chunk)
    assert first["specgate_ids"][: len(seen)] == seen
    assert Frames.read(rest_chunks).choice == whole.choice
    assert [chunk["usage"] for chunk in rest_chunks][-1] == whole.usages[-1]


@pytest.mark.parametrize(
    "asking",
    [
        {"prompt": "The", "logprobs": 2, "top_logprobs": None},
        {"messages": RIVERS, "logprobs": True},
    ],
)
def test_log_probabilities_are_those_of_an_undisturbed_run_behind_the_seam(
    asking: Body, plain: Worker, speculating: Worker
) -> None:
    body = {"max_tokens": TOKENS, "top_logprobs": 2, **asking}
    whole = plain.ask(body)

    found = speculating.ask(resumed(body, whole.token_ids[:7]))

    assert found == whole
    (expected,), (got,) = whole.logprobs, found.logprobs
    assert got.chosen[7:] == pytest.approx(expected.chosen[7:], abs=1e-4)
    assert got.chosen[:7] == (0.0,) * 7


def test_a_seed_gives_the_same_answer_each_time_it_is_resumed(speculating: Worker) -> None:
    body = {"messages": RIVERS, "max_tokens": TOKENS, "temperature": 1.0, "seed": 3}
    tokens = speculating.ask(body).token_ids

    one, other = (speculating.ask(resumed(body, tokens[:5])) for _ in range(2))

    assert one == other
    assert one.token_ids[:5] == tokens[:5]


def test_tokens_that_do_not_fit_the_grammar_fail_alone(speculating: Worker) -> None:
    body = {"prompt": "One", "max_tokens": TOKENS, "structured_outputs": {"regex": "[a-f]+"}}
    wrong = resumed(body, speculating.tokenize("1"))

    answer = speculating.client.post("/v1/completions", json={"model": MODEL, **wrong})

    assert answer.status_code == 500
    assert speculating.ask({"prompt": "One"}).completion_tokens > 0


@pytest.mark.parametrize("choice", ["auto", "required", "named"])
def test_a_tool_call_goes_on_where_its_stream_was_cut(choice: str, speculating: Worker) -> None:
    named = {"type": "function", "function": {"name": "weather"}}
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": "How is the weather in Paris this week?"}],
        "tools": [WEATHER],
        "tool_choice": named if choice == "named" else choice,
        "max_tokens": 3 * TOKENS,
        "return_token_ids": False,
    }
    # A small model that may choose seldom calls: it is given the beginning.
    begun = 'Let me see.\n<tool_call>\n{"name": "weather", "arguments": {"city": "'
    begin = speculating.tokenize(begun) if choice == "auto" else []
    whole = frames_of(speculating, resumed(body, begin, specgate_ids=1))
    expected = called(whole)
    name, arguments, _ = expected
    assert name == "weather"
    assert json.loads(arguments).keys() == {"city", "days"}

    for cut in range(2, len(whole) - 2, 2):
        progress = Progress()
        before = [progress.take(frame) for frame in whole[:cut]]
        seam = Seam(progress)
        after = frames_of(speculating, resumed(body, progress.tokens, specgate_ids=1))

        left = [seam.cut(frame) for frame in after]

        assert called([*before, *filter(None, left)]) == expected, f"cut before chunk {cut}"


def frames_of(worker: Worker, body: Body) -> list[bytes]:
    with worker.streaming(body) as chunks:
        return [data_frame(json.dumps(chunk, separators=(",", ":")).encode()) for chunk in chunks]


def called(frames: Sequence[bytes]) -> tuple[str, str, str]:
    """Name, arguments and finish reason of a stream that calls one tool."""
    name, arguments, reason = "", "", ""
    for frame in frames:
        (choice,) = json.loads(data_of(frame))["choices"]
        reason = choice["finish_reason"] or reason
        for call in choice["delta"].get("tool_calls") or ():
            assert call["index"] == 0
            name += call["function"].get("name") or ""
            arguments += call["function"].get("arguments") or ""
    return name, arguments, reason


@pytest.mark.parametrize(
    ("tokens", "more", "said"),
    [
        ([-1], {}, "list of token ids"),
        ([10**9], {}, "list of token ids"),
        (["a"], {}, "list of token ids"),
        ([1.5], {}, "list of token ids"),
        ([5], {"n": 2, "temperature": 1}, "one choice"),
        ([5], {"prompt_logprobs": 1}, "one choice"),
        ([5] * TOKENS, {}, "no room"),
    ],
)
def test_what_cannot_be_resumed_is_refused(
    tokens: list[Any], more: Body, said: str, speculating: Worker
) -> None:
    body = resumed({"prompt": "One", "max_tokens": TOKENS, **more}, tokens)

    answer = speculating.client.post("/v1/completions", json={"model": MODEL, **body})

    assert answer.status_code == 400
    assert said in answer.text
