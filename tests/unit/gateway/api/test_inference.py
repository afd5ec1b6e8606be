import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from gateway.admission import KeyLimits
from tests.fakes.keys import bearer, issue_key
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.application import Application, running
from tests.unit.gateway.json_log import json_log

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hi"}]}
SECRETS = ("PROMPT-TEXT", "SYSTEM-TEXT", "ANSWER-TEXT", "SALT-TEXT", "COOKIE-TEXT")


@pytest.fixture
def key(tmp_path: Path) -> tuple[str, Path]:
    """A key and its file."""
    path = tmp_path / "keys"
    return issue_key(path, KeyLimits(requests_per_minute=2)), path


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, BODY),
        ("/v1/completions", {"prompt": "x"}),
        ("/v1/responses", {"input": "x"}),
        ("/v1/messages", BODY),
        ("/v1/embeddings", {"input": "x"}),
        ("/tokenize", {"prompt": "x"}),
        ("/detokenize", {"tokens": [120]}),
    ],
)
async def test_every_endpoint_is_served(
    gateway: Application, path: str, body: dict[str, Any]
) -> None:
    answer = await gateway.client.post(path, json=body)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()


async def test_only_listed_headers_reach_the_worker(
    gateway: Application, worker: FakeWorker
) -> None:
    sent = {
        "authorization": "Bearer secret",
        "x-api-key": "secret",
        "cookie": "secret",
        "x-forwarded-for": "secret",
        "host": "secret",
        "traceparent": "00-1-2-3",
        "anthropic-version": "2023-06-01",
        "accept": "text/event-stream",
    }
    await gateway.client.post(CHAT, json=BODY, headers=sent)

    seen = worker.requests[0].headers
    assert "secret" not in seen.values()
    assert (seen["traceparent"], seen["accept"]) == ("00-1-2-3", "text/event-stream")
    assert seen["anthropic-version"] == "2023-06-01"
    assert seen["content-type"] == "application/json"


async def test_a_repeated_id_is_unique_for_the_worker(
    gateway: Application, worker: FakeWorker
) -> None:
    answers = [
        await gateway.client.post(CHAT, json=BODY, headers={"x-request-id": "mine"})
        for _ in range(2)
    ]

    assert [answer.headers["x-request-id"] for answer in answers] == ["mine", "mine"]
    sent = {request.headers["x-request-id"] for request in worker.requests}
    assert len(sent) == 2
    assert all(name.startswith("mine-") for name in sent)


async def test_without_an_id_the_worker_gets_a_generated_one(
    gateway: Application, worker: FakeWorker
) -> None:
    answer = await gateway.client.post(CHAT, json=BODY)

    assert worker.requests[0].headers["x-request-id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b'{"messages":[NaN]}',
        b'{"messages":' + b"[" * 50_000,
        b'{"messages":[],"n":' + b"9" * 5000 + b"}",
        b'{"messages":[],"stream":"yes"}',
        b'{"messages":[],"speculation":{"mode":"\\ud800"}}',
        b'{"messages":[],"speculation":{"\\ud800":1}}',
        b'{"messages":[],"model":["m"]}',
        b'{"messages":[],"model":"\\ud800"}',
        b'{"messages":[{"content":"\\ud800"}]}',
        b'{"messages":[],"user":"\\udfff"}',
    ],
    ids=lambda body: repr(body[:50]),
)
async def test_an_invalid_body_does_not_reach_the_worker(
    gateway: Application, worker: FakeWorker, body: bytes
) -> None:
    answer = await gateway.client.post(CHAT, content=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert worker.requests == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[],"max_tokens":' + b"9" * 4000 + b"}",
        b'{"messages":[],"temperature":1e999}',
        b'{"messages":[],"cache_salt":"\\ud83d\\ude42\\u0000"}',
        b'{"messages":[],"messages":[],"\\u0000":1}',
    ],
    ids=lambda body: repr(body[:50]),
)
async def test_an_unusual_body_is_forwarded(
    gateway: Application, worker: FakeWorker, body: bytes
) -> None:
    answer = await gateway.client.post(CHAT, content=body)

    assert answer.status_code in (200, 400)
    assert len(worker.requests) == 1


async def test_a_huge_max_tokens_with_a_limited_key_is_forwarded(
    worker: FakeWorker, tmp_path: Path
) -> None:
    text = issue_key(tmp_path / "keys", KeyLimits(tokens_per_minute=10))
    body = b'{"messages":[],"max_tokens":' + b"9" * 4000 + b"}"
    async with running(worker.url, keys={"file": tmp_path / "keys"}) as gateway:
        answers = [
            await gateway.client.post(CHAT, content=body, headers=bearer(text)) for _ in range(2)
        ]

    assert {answer.status_code for answer in answers} == {400}  # the worker's own refusal


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
async def test_a_key_is_accepted_in_either_sdks_header(
    worker: FakeWorker, key: tuple[str, Path], header: str
) -> None:
    text, path = key
    value = f"Bearer {text}" if header == "authorization" else text
    async with running(worker.url, keys={"file": path}) as gateway:
        answer = await gateway.client.post(CHAT, json=BODY, headers={header: value})

    assert answer.status_code == 200
    assert answer.headers["x-ratelimit-remaining-requests"] == "1"


@pytest.mark.parametrize(
    ("path", "kind"), [(CHAT, None), ("/v1/messages", "error")], ids=["openai", "anthropic"]
)
async def test_without_a_key_requests_are_refused(
    worker: FakeWorker, key: tuple[str, Path], path: str, kind: str | None
) -> None:
    async with running(worker.url, keys={"file": key[1]}) as gateway:
        answer = await gateway.client.post(path, json=BODY)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert answer.json().get("type") == kind
    assert worker.requests == []


async def test_a_key_for_one_model_may_not_use_another(worker: FakeWorker, tmp_path: Path) -> None:
    headers = bearer(issue_key(tmp_path / "keys", models=("other",)))
    async with running(worker.url, keys={"file": tmp_path / "keys"}) as gateway:
        named = await gateway.client.post(
            CHAT, json={**BODY, "model": "fake-model"}, headers=headers
        )
        default = await gateway.client.post(CHAT, json=BODY, headers=headers)

    assert named.status_code == default.status_code == 403
    assert named.json()["error"]["code"] == "permission_denied"
    assert worker.requests == []


async def test_a_key_over_its_limit_gets_retry_after(
    worker: FakeWorker, key: tuple[str, Path]
) -> None:
    headers = bearer(key[0])
    async with running(worker.url, keys={"file": key[1]}) as gateway:
        for _ in range(2):
            await gateway.client.post(CHAT, json=BODY, headers=headers)
        answer = await gateway.client.post(CHAT, json=BODY, headers=headers)

    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "30"
    assert answer.headers["x-ratelimit-remaining-requests"] == "0"
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"


async def test_a_refusal_of_the_worker_has_the_rate_limit_headers(
    worker: FakeWorker, key: tuple[str, Path]
) -> None:
    headers = bearer(key[0])
    async with running(worker.url, keys={"file": key[1]}) as gateway:
        answer = await gateway.client.post(
            CHAT, json={**BODY, "fake": {"status": 400}}, headers=headers
        )

    assert answer.status_code == 400
    assert answer.headers["x-ratelimit-limit-requests"] == "2"


async def test_a_body_over_the_limit_is_refused(worker: FakeWorker) -> None:
    async with running(worker.url, admission={"max_body_bytes": 100}) as gateway:
        answer = await gateway.client.post(CHAT, content=b" " * 101)

    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_disconnect_aborts_the_request_on_the_worker(
    gateway: Application, worker: FakeWorker, stream: bool
) -> None:
    script = {"hang_after_chunks": 1} if stream else {"hang_before_headers": True}
    body = json.dumps({**BODY, "stream": stream, "fake": script}).encode()
    messages: list[Message] = [{"type": "http.request", "body": body}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await eventually(lambda: worker.active == 1)
        await asyncio.sleep(0.05)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        pass

    with json_log() as log:
        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": []}
        await gateway.app(scope, receive, send)

    await eventually(lambda: worker.requests[0].aborted, within_seconds=1)
    (line,) = log.of("request")
    assert (line["outcome"], line["reason"]) == ("cancelled", "client_gone")
    assert line["status"] == (200 if stream else 499)


async def test_a_disconnect_while_sending_is_no_error(
    gateway: Application, worker: FakeWorker
) -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError(f"nobody is there to get {message}")

    with json_log() as log:
        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": []}
        await gateway.app(scope, receive, send)

    assert log.of("request")[0]["outcome"] == "cancelled"
    assert worker.requests == []


async def test_a_long_answer_that_breaks_is_not_ended(worker: FakeWorker) -> None:
    body = json.dumps({**BODY, "fake": {"unary_bytes": 5000, "truncate_unary": True}}).encode()
    sent: list[Message] = []

    async def receive() -> Message:
        if not sent and messages:
            return messages.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    messages: list[Message] = [{"type": "http.request", "body": body}]
    async with running(worker.url, request={"held_answer_bytes": 100}) as gateway:
        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": []}
        with json_log() as log:
            await gateway.app(scope, receive, send)

    assert sent[0]["status"] == 200
    assert all(message.get("more_body", True) for message in sent)
    assert log.of("request")[0]["outcome"] == "upstream_error"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    "script",
    [
        {},
        {"status": 400},
        {"status": 500},
        {"error_frame_after_chunks": 1},
        {"bad_json_frame": 1},
        {"drop_before_headers": True},
        {"drop_after_chunks": 1},
        {"truncate_unary": True},
    ],
    ids=str,
)
async def test_prompts_and_answers_are_not_logged(
    worker: FakeWorker, key: tuple[str, Path], script: dict[str, Any], stream: bool
) -> None:
    text, path = key
    message = {"error": {"message": "refused: PROMPT-TEXT"}} if "status" in script else None
    body = {
        "messages": [
            {"role": "system", "content": "SYSTEM-TEXT"},
            {"role": "user", "content": "PROMPT-TEXT"},
        ],
        "cache_salt": "SALT-TEXT",
        "stream": stream,
        "fake": {"text": ["ANSWER-TEXT"] * 3, "error": message, **script},
    }
    headers = {"authorization": f"Bearer {text}", "cookie": "COOKIE-TEXT"}
    with json_log() as log:
        async with running(worker.url, keys={"file": path}) as gateway:
            await gateway.client.post(CHAT, json=body, headers=headers)

    assert len(log.of("request")) == 1
    assert log.of("request")[0]["tenant"] == "acme"
    assert not any(secret in log.text for secret in (*SECRETS, text, text.split("-", 2)[2]))


async def test_refused_bodies_and_keys_are_not_logged(
    worker: FakeWorker, key: tuple[str, Path]
) -> None:
    headers = {"authorization": f"Bearer {key[0][:-1]}X"}
    with json_log() as log:
        async with running(worker.url, keys={"file": key[1]}) as gateway:
            await gateway.client.post(CHAT, content=b"{PROMPT-TEXT", headers=headers)
        async with running(worker.url) as gateway:
            await gateway.client.post(CHAT, content=b"{PROMPT-TEXT")

    assert [line["status"] for line in log.of("request")] == [401, 400]
    assert "PROMPT-TEXT" not in log.text
    assert key[0][:-1] not in log.text
