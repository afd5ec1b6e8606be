"""Answers, usage and refusals are worded as vLLM words them."""

from typing import Any

import httpx
import pytest

from tests.fakes.coded_steps import coded_step
from tests.unit.fakes.calls import CHAT, chat, data_of

STREAMING_BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": []},
    "/v1/completions": {"prompt": "x"},
    "/v1/responses": {"input": "x"},
    "/v1/messages": {"messages": []},
}


async def test_unary_chat_has_vllms_fields(client: httpx.AsyncClient) -> None:
    answer = await client.post(CHAT, content=chat(stream=False, chunks=3, drafted=11, accepted=9))

    body = answer.json()
    assert body["choices"][0]["message"]["content"] == " hello hello hello"
    assert body["usage"]["completion_tokens"] == 3
    figures = body["metrics"]["speculative_decoding"]
    assert figures["per_step_drafted"] == [8, 3]
    assert figures["per_step_accepted"] == [8, 1]
    assert figures["mean_acceptance_length"] == 5.5


async def test_unary_answers_have_ids_of_their_own(client: httpx.AsyncClient) -> None:
    first = await client.post(CHAT, json={"messages": []})
    second = await client.post(CHAT, json={"messages": []})

    assert first.json()["id"] != second.json()["id"]


@pytest.mark.parametrize(
    ("path", "end"),
    [
        (CHAT, b"data: [DONE]\n\n"),
        ("/v1/completions", b"data: [DONE]\n\n"),
        ("/v1/responses", b'"type":"response.completed"}\n\n'),
        ("/v1/messages", b'{"type":"message_stop"}\n\n'),
    ],
)
async def test_stream_ends_as_its_endpoint_has_it(
    client: httpx.AsyncClient, path: str, end: bytes
) -> None:
    body = STREAMING_BODIES[path] | {"stream": True, "fake": {"text": ["a", "b"]}}

    answer = await client.post(path, json=body)

    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.content.endswith(end)


@pytest.mark.parametrize("path", STREAMING_BODIES)
async def test_no_done_leaves_out_the_last_frame_alone(
    client: httpx.AsyncClient, path: str
) -> None:
    body = STREAMING_BODIES[path] | {"stream": True}

    whole = await client.post(path, json=body)
    short = await client.post(path, json=body | {"fake": {"no_done": True}})

    assert short.content.count(b"\n\n") == whole.content.count(b"\n\n") - 1


async def test_usage_chunk_comes_only_when_asked_for(client: httpx.AsyncClient) -> None:
    without = await client.post(CHAT, content=chat(chunks=2))
    with_usage = await client.post(CHAT, content=chat(chunks=2, usage={"include_usage": True}))

    assert all("usage" not in chunk for chunk in data_of(without.content))
    last = data_of(with_usage.content)[-1]
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 7, "total_tokens": 9, "completion_tokens": 2}
    assert "speculative_decoding" in last["metrics"]


async def test_continuous_usage_counts_the_tokens_of_each_chunk(client: httpx.AsyncClient) -> None:
    usage = {"include_usage": True, "continuous_usage_stats": True}

    answer = await client.post(CHAT, content=chat(chunks=3, tokens_per_chunk=4, usage=usage))

    counts = [chunk["usage"]["completion_tokens"] for chunk in data_of(answer.content)]
    assert counts == [0, 4, 8, 12, 12]


async def test_reported_steps_are_passed_on_as_scripted(client: httpx.AsyncClient) -> None:
    script: dict[str, Any] = {"per_step_drafted": [65540, 3], "per_step_accepted": [2, 3]}

    answer = await client.post(CHAT, content=chat(stream=False, **script))

    figures = answer.json()["metrics"]["speculative_decoding"]
    assert figures["per_step_drafted"] == [65540, 3]
    assert figures["num_spec_steps"] == 2


async def test_totals_of_coded_steps_are_those_of_their_tokens(client: httpx.AsyncClient) -> None:
    steps = [coded_step(4, "prediction"), coded_step(8, "head", "suffix", border=3)]
    script: dict[str, Any] = {"per_step_drafted": steps, "per_step_accepted": [2, 5]}

    answer = await client.post(CHAT, content=chat(stream=False, **script))

    figures = answer.json()["metrics"]["speculative_decoding"]
    assert steps == [4 | 4 << 16, 8 | 2 << 16 | 1 << 20 | 3 << 24]
    assert (figures["num_draft_tokens"], figures["num_accepted_draft_tokens"]) == (12, 7)


async def test_summary_leaves_out_the_steps(client: httpx.AsyncClient) -> None:
    answer = await client.post(CHAT, content=chat(stream=False, drafted=11, summary=True))

    figures = answer.json()["metrics"]["speculative_decoding"]
    assert figures["num_draft_tokens"] == 11
    assert figures["per_step_drafted"] is figures["per_step_accepted"] is None


async def test_worker_without_a_drafter_reports_no_figures(client: httpx.AsyncClient) -> None:
    answer = await client.post(CHAT, content=chat(stream=False, no_speculation=True))

    assert answer.json()["metrics"]["speculative_decoding"] is None


async def test_embeddings_answer_vectors(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/embeddings", json={"input": "x"})

    assert len(answer.json()["data"][0]["embedding"]) == 4


@pytest.mark.parametrize(
    ("path", "body", "status", "where"),
    [
        (CHAT, b"{bad", 400, ("error", "param")),
        (CHAT, b"[]", 400, ("error", "param")),
        (CHAT, b'{"model":"fake-model"}', 400, ("error", "param")),
        (CHAT, b'{"model":"other","messages":[]}', 404, ("error", "param")),
        (CHAT, b'{"messages":[],"max_tokens":99999}', 400, ("error", "param")),
        ("/v1/messages", b'{"model":"other","messages":[]}', 404, ("error", "type")),
        ("/nothing", b"{}", 404, ("detail",)),
        ("/health", b"", 405, ("detail",)),
    ],
)
async def test_refusals_have_the_status_and_shape_of_vllm(
    client: httpx.AsyncClient, path: str, body: bytes, status: int, where: tuple[str, ...]
) -> None:
    answer = await client.post(path, content=body)

    found: Any = answer.json()
    for name in where:
        found = found[name]
    assert answer.status_code == status
    assert isinstance(found, str)


async def test_messages_refusals_are_anthropics(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/messages", json={"messages": [], "fake": {"status": 503}})

    assert answer.json()["type"] == "error"
    assert answer.status_code == 503


async def test_scripted_error_is_sent_word_for_word(client: httpx.AsyncClient) -> None:
    script: dict[str, Any] = {"status": 429, "error": {"odd": [1]}, "headers": {"retry-after": "3"}}

    answer = await client.post(CHAT, content=chat(**script))

    assert (answer.status_code, answer.json()) == (429, {"odd": [1]})
    assert answer.headers["retry-after"] == "3"


@pytest.mark.parametrize(
    ("script", "name"),
    [({"chunsk": 3}, "chunsk"), ({"chunks": "3"}, "chunks"), ({"cut_in_utf8": 99}, "cut_in_utf8")],
)
async def test_wrong_script_is_refused_by_name(
    client: httpx.AsyncClient, script: dict[str, Any], name: str
) -> None:
    answer = await client.post(CHAT, content=chat(**script))

    assert answer.status_code == 400
    assert name in answer.json()["error"]["message"]
