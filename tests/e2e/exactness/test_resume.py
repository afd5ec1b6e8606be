"""Answers resumed behind tokens that were sent already are those of an undisturbed run."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.e2e.exactness.answers import Frames
from tests.e2e.exactness.prompts import make_prompts, make_prose
from tests.e2e.exactness.worker import Body, Worker
from tests.e2e.service import MODEL

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

TOKENS = 40
RIVERS = [{"role": "user", "content": "Name three rivers and say where they end."}]
ASKED: dict[str, Body] = {
    "completion": {"prompt": make_prompts(1, seed=90)[0]},
    "chat": {"messages": RIVERS},
    "presence penalty": {"prompt": make_prose(1, seed=91)[0], "presence_penalty": 1.5},
    "frequency penalty": {"messages": RIVERS, "frequency_penalty": 0.8},
    "repetition penalty": {"prompt": make_prose(1, seed=92)[0], "repetition_penalty": 1.3},
    "stop": {"prompt": "Alice was beginning to get very tired of", "stop": [" sitting", ". S"]},
    "least tokens": {"messages": RIVERS, "min_tokens": 30, "stop": ["\n"]},
    "forbidden words": {"prompt": make_prose(1, seed=94)[0], "bad_words": ["and", "the"]},
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
        ([5], {"structured_outputs": {"regex": "a+"}}, "structured"),
    ],
)
def test_what_cannot_be_resumed_is_refused(
    tokens: list[Any], more: Body, said: str, speculating: Worker
) -> None:
    body = resumed({"prompt": "One", "max_tokens": TOKENS, **more}, tokens)

    answer = speculating.client.post("/v1/completions", json={"model": MODEL, **body})

    assert answer.status_code == 400
    assert said in answer.text
