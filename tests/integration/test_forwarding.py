"""Values are forwarded byte for byte both ways; only the fields that the gateway adds are new."""

from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, COMPLETIONS, Api, each_api
from tests.integration.running import DIGESTS, running_gateway

_JSON = {"content-type": "application/json"}
_TENANT = DIGESTS.of("anonymous")
# What parsing and dumping the values would lose: number formats, escapes, order, spaces in them.
_ODD = (
    '{ "model" : "fake-model",\n\t'
    '"messages":[{"role":"user","content":"\\u00e9\\ud83d\\ude42 é🙂"}]'
    ',"prompt":"x","input":"x","max_tokens":64,'
    '"vendor":{"b":1.0, "a" : 1e0,"c":-0.0,"d":1E+2,"e":10000000000000000000000,"a":2},'
    '"temperature":0.70 ,"seed":1,"seed":2, "top_k":  5,"stream":false, "empty":{ },"last":null }'
)
_SENT = (
    '{"model":"fake-model",'
    '"messages":[{"role":"user","content":"\\u00e9\\ud83d\\ude42 é🙂"}]'
    ',"prompt":"x","input":"x","max_tokens":64,'
    '"vendor":{"b":1.0, "a" : 1e0,"c":-0.0,"d":1E+2,"e":10000000000000000000000,"a":2},'
    '"temperature":0.70,"seed":2,"top_k":5,"stream":false,"empty":{ },"last":null'
)
_ADDED_XARGS = f'{{"specgate_mode":"auto","specgate_tenant":"{_TENANT}"}}'

_ALSO_ADDED = {"/v1/responses": ',"store":false'}
"""The gateway stores the response, so the worker need not."""


@each_api
async def test_request_is_changed_by_the_added_fields_only(worker: FakeWorker, api: Api) -> None:
    async with running_gateway(worker) as gateway:
        await gateway.client.post(api.path, content=_ODD.encode(), headers=_JSON)

    also = _ALSO_ADDED.get(api.path, "")
    added = f',"vllm_xargs":{_ADDED_XARGS},"cache_salt":"{_TENANT}"{also}}}'
    assert worker.requests[0].body.decode() == _SENT + added


@pytest.mark.parametrize("api", [CHAT, COMPLETIONS], ids=lambda api: api.name)
async def test_stream_also_asks_for_usage_and_ids(worker: FakeWorker, api: Api) -> None:
    body, sent = (text.replace('"stream":false', '"stream":true') for text in (_ODD, _SENT))
    async with running_gateway(worker) as gateway:
        await gateway.client.post(api.path, content=body.encode(), headers=_JSON)

    usage = '"stream_options":{"include_usage":true,"continuous_usage_stats":true}'
    xargs = f'{_ADDED_XARGS.removesuffix("}")},"specgate_ids":1}}'
    added = f',"vllm_xargs":{xargs},"cache_salt":"{_TENANT}",{usage}}}'
    assert worker.requests[0].body.decode() == sent + added


async def test_embeddings_get_the_salt_only(worker: FakeWorker) -> None:
    body = '{"model":"fake-model","input":[1, 2,3.0]}'
    async with running_gateway(worker) as gateway:
        answer = await gateway.client.post("/v1/embeddings", content=body, headers=_JSON)

    sent = worker.requests[0].body.decode()
    assert sent == f'{body.removesuffix("}")},"cache_salt":"{_TENANT}"}}'
    assert answer.json()["data"][0]["embedding"] == [0.5, -0.5, 0.5, -0.5]


async def test_vendor_fields_of_an_answer_survive(worker: FakeWorker) -> None:
    headers = {"openai-processing-ms": "7", "x-accel-redirect": "/secret"}
    script = {"drafted": 10, "accepted": 4, "headers": headers}
    async with running_gateway(worker) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(fake=script))
        direct = await gateway.client.post(f"{worker.url}{CHAT.path}", json=CHAT.body(fake=script))

    expected = _without_identity(direct.json())
    expected["metrics"]["speculative_decoding"]["sources"] = {
        "native": {"drafted": 10, "accepted": 4}
    }
    assert _without_identity(answer.json()) == expected
    assert answer.headers["openai-processing-ms"] == "7"
    assert "x-accel-redirect" not in answer.headers  # nginx would obey it


def _without_identity(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key not in ("id", "created")}


async def test_key_of_the_workers_is_added(worker: FakeWorker, folder: Any) -> None:
    (folder / "key").write_text("worker-secret\n", encoding="utf-8")
    upstream = {"api_key_file": folder / "key"}
    async with running_gateway(worker, upstream=upstream) as gateway:
        await gateway.client.post(CHAT.path, json=CHAT.body())

    assert worker.requests[0].headers["authorization"] == "Bearer worker-secret"
