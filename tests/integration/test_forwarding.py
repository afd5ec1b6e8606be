"""Bodies are forwarded byte for byte in both directions, except for the fields that are added."""

import json
from typing import Any

import pytest

from gateway.protocol import tenant_digest
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, COMPLETIONS, Api, each_api
from tests.integration.running import running_gateway

_JSON = {"content-type": "application/json"}
_TENANT = tenant_digest("anonymous")
# What a parser would lose: spellings of numbers, escapes, order, duplicates, blanks.
_ODD = (
    '{ "model" : "fake-model",\n\t'
    '"messages":[{"role":"user","content":"\\u00e9\\ud83d\\ude42 é🙂"}]'
    ',"prompt":"x","input":"x","max_tokens":64,'
    '"vendor":{"b":1.0,"a":1e0,"c":-0.0,"d":1E+2,"e":10000000000000000000000},'
    '"temperature":0.70 ,"seed":1,"seed":2, "top_k":  5,"stream":false, "empty":{ },"last":null }'
)
_ADDED_XARGS = f'{{"specgate_mode":"auto","specgate_tenant":"{_TENANT}"}}'


@each_api
async def test_body_differs_by_the_named_additions_only(worker: FakeWorker, api: Api) -> None:
    async with running_gateway(worker) as gateway:
        await gateway.client.post(api.path, content=_ODD.encode(), headers=_JSON)

    added = f',"vllm_xargs":{_ADDED_XARGS},"cache_salt":"{_TENANT}" }}'
    assert worker.requests[0].body.decode() == _ODD.removesuffix(" }") + added


@pytest.mark.parametrize("api", [CHAT, COMPLETIONS], ids=lambda api: api.name)
async def test_stream_asks_for_usage_besides(worker: FakeWorker, api: Api) -> None:
    body = _ODD.replace('"stream":false', '"stream":true')
    async with running_gateway(worker) as gateway:
        await gateway.client.post(api.path, content=body.encode(), headers=_JSON)

    usage = '"stream_options":{"include_usage":true,"continuous_usage_stats":true}'
    added = f',"vllm_xargs":{_ADDED_XARGS},"cache_salt":"{_TENANT}",{usage} }}'
    assert worker.requests[0].body.decode() == body.removesuffix(" }") + added


async def test_embeddings_get_no_more_than_a_salt(worker: FakeWorker) -> None:
    body = '{"model":"fake-model","input":[1, 2,3.0]}'
    async with running_gateway(worker) as gateway:
        answer = await gateway.client.post("/v1/embeddings", content=body, headers=_JSON)

    sent = worker.requests[0].body.decode()
    assert sent == f'{body.removesuffix("}")},"cache_salt":"{_TENANT}"}}'
    assert answer.json()["data"][0]["embedding"] == [0.5, -0.5, 0.5, -0.5]


async def test_what_a_caller_forges_is_replaced(worker: FakeWorker) -> None:
    forged = {"specgate_tenant": "other", "specgate_prediction": [1], "theirs": 1}
    body = CHAT.body(vllm_xargs=forged, cache_salt=tenant_digest("other"))
    async with running_gateway(worker) as gateway:
        await gateway.client.post(CHAT.path, json=body)

    sent = worker.requests[0].json()
    assert sent["vllm_xargs"] == {
        "specgate_tenant": _TENANT,
        "theirs": 1,
        "specgate_mode": "auto",
    }
    assert sent["cache_salt"] not in (tenant_digest("other"), _TENANT)


async def test_speculation_reaches_the_worker_as_its_own_arguments(worker: FakeWorker) -> None:
    body = CHAT.body(speculation={"mode": "suffix", "max_draft_tokens": 3})
    async with running_gateway(worker) as gateway:
        await gateway.client.post(CHAT.path, json=body)

    sent = worker.requests[0].json()
    assert "speculation" not in sent
    assert sent["vllm_xargs"]["specgate_mode"] == "suffix"
    assert sent["vllm_xargs"]["specgate_max_draft_tokens"] == 3


async def test_token_endpoints_pass_through(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway:
        tokens = await gateway.client.post("/tokenize", json={"prompt": "hé"})
        text = await gateway.client.post("/detokenize", json={"tokens": tokens.json()["tokens"]})

    assert tokens.json()["count"] == 3
    assert text.json() == {"prompt": "hé"}


async def test_vendor_fields_of_an_answer_survive(worker: FakeWorker) -> None:
    script = {"drafted": 10, "accepted": 4, "headers": {"x-vendor": "1"}}
    async with running_gateway(worker) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(fake=script))
        direct = await gateway.client.post(f"{worker.url}{CHAT.path}", json=CHAT.body(fake=script))

    expected = _without_identity(direct.json())
    expected["metrics"]["speculative_decoding"]["sources"] = {
        "native": {"drafted": 10, "accepted": 4}
    }
    assert _without_identity(answer.json()) == expected
    assert answer.headers["x-vendor"] == "1"


def _without_identity(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key not in ("id", "created")}


async def test_worker_sees_no_key_cookie_or_address_of_the_client(worker: FakeWorker) -> None:
    secret = {
        "authorization": "Bearer sg-secret",
        "cookie": "session=1",
        "x-forwarded-for": "10.0.0.1",
        "x-api-key": "sg-secret",
        "openai-organization": "org",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }
    async with running_gateway(worker) as gateway:
        await gateway.client.post(CHAT.path, json=CHAT.body(), headers=secret)

    seen = worker.requests[0].headers
    assert set(seen) <= {
        *("host", "accept", "content-type", "content-length", "x-request-id", "traceparent"),
    }
    assert seen["traceparent"] == secret["traceparent"]


async def test_request_id_is_given_back_and_unique_for_the_worker(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway:
        chosen = {"x-request-id": "my-id"}
        first = await gateway.client.post(CHAT.path, json=CHAT.body(), headers=chosen)
        second = await gateway.client.post(CHAT.path, json=CHAT.body(), headers=chosen)
        third = await gateway.client.post(CHAT.path, json=CHAT.body())

    sent = [request.headers["x-request-id"] for request in worker.requests]
    assert first.headers["x-request-id"] == second.headers["x-request-id"] == "my-id"
    assert sent[0].startswith("my-id-")
    assert len(set(sent)) == 3
    assert third.headers["x-request-id"] == sent[2]


@pytest.mark.parametrize(
    "bad", ["", "a b", "x" * 129, "a\tb", "naïve"], ids=lambda bad: repr(bad[:8])
)
async def test_odd_request_id_is_not_taken_over(worker: FakeWorker, bad: str) -> None:
    async with running_gateway(worker) as gateway:
        headers = [(b"x-request-id", bad.encode("latin-1"))]
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(), headers=headers)

    assert answer.status_code == 200
    assert answer.headers["x-request-id"] != bad
    assert len(answer.headers["x-request-id"]) == 32


async def test_key_of_the_workers_is_added(worker: FakeWorker, folder: Any) -> None:
    (folder / "key").write_text("worker-secret\n", encoding="utf-8")
    upstream = {"api_key_file": folder / "key"}
    async with running_gateway(worker, upstream=upstream) as gateway:
        await gateway.client.post(CHAT.path, json=CHAT.body())

    assert worker.requests[0].headers["authorization"] == "Bearer worker-secret"


async def test_models_show_no_file_path(worker: FakeWorker) -> None:
    worker.state.models = ["/srv/weights/llama"]
    async with running_gateway(worker) as gateway:
        answer = await gateway.client.get("/v1/models")

    assert json.loads(answer.content)["data"][0]["id"] == "/srv/weights/llama"
