"""API keys over HTTP: what needs a key, which headers carry it, and what the worker sees of it."""

from pathlib import Path

import anthropic
import openai
import pytest

from tests.fakes.keys import bearer, issue_key
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, MESSAGES
from tests.integration.process import SERVE, gateway_process
from tests.integration.running import running_gateway
from tests.integration.waiting import eventually


@pytest.fixture
def key_file(folder: Path) -> Path:
    return folder / "keys"


async def test_each_sdk_raises_its_authentication_error(worker: FakeWorker, key_file: Path) -> None:
    async with running_gateway(worker, keys={"file": key_file}) as gateway:
        with pytest.raises(openai.AuthenticationError):
            await CHAT.ask(gateway.url, {})
        with pytest.raises(anthropic.AuthenticationError):
            await MESSAGES.ask(gateway.url, {})
        answer = await gateway.client.post(MESSAGES.path, json=MESSAGES.body())

    assert answer.json()["type"] == "error"


async def test_key_is_accepted_as_openai_and_as_anthropic_send_it(
    worker: FakeWorker, key_file: Path
) -> None:
    key = issue_key(key_file)
    async with running_gateway(worker, keys={"file": key_file}) as gateway:
        first = await gateway.client.post(CHAT.path, json=CHAT.body(), headers=bearer(key))
        other = await gateway.client.post(CHAT.path, json=CHAT.body(), headers={"x-api-key": key})

    assert (first.status_code, other.status_code) == (200, 200)


async def test_probes_and_scrapers_need_no_key(worker: FakeWorker, key_file: Path) -> None:
    async with running_gateway(worker, keys={"file": key_file}) as gateway:
        paths = ("/health/live", "/health/ready", "/health/workers", "/metrics")
        statuses = [(await gateway.client.get(path)).status_code for path in paths]

    assert statuses == [200] * 4


async def test_worker_gets_one_digest_for_each_tenant(worker: FakeWorker, key_file: Path) -> None:
    keys = [issue_key(key_file, tenant=tenant) for tenant in ("acme", "acme", "other")]
    async with running_gateway(worker, keys={"file": key_file}) as gateway:
        for key in keys:
            await gateway.client.post(CHAT.path, json=CHAT.body(), headers=bearer(key))

    sent = [request.json() for request in worker.requests]
    salts = [body["cache_salt"] for body in sent]
    tenants = [body["vllm_xargs"]["specgate_tenant"] for body in sent]
    assert salts[0] == salts[1] != salts[2]
    assert tenants[0] == tenants[1] != tenants[2]
    assert b"acme" not in worker.requests[0].body


async def test_key_is_neither_logged_nor_forwarded(worker: FakeWorker, folder: Path) -> None:
    key = issue_key(folder / "keys")
    log = {"format": "json", "level": "debug"}
    keys = {"file": str(folder / "keys")}
    async with gateway_process(folder, worker, keys=keys, log=log) as gateway:
        body = CHAT.body(stream=True, messages=[{"role": "user", "content": "a private matter"}])
        await gateway.client.post(CHAT.path, json=body, headers=bearer(key))
        await eventually(lambda: any(CHAT.path in line for line in gateway.lines))

        text = "\n".join(gateway.lines)
        lines = [line for line in gateway.logged("request") if line["path"] == CHAT.path]
        secret = key.split("-", 2)[2]  # which may hold dashes itself
        assert secret not in text
        assert "private matter" not in text
        assert "hello" not in text
        assert secret not in str(worker.requests[0])
        assert (lines[0]["tenant"], lines[0]["key"]) == ("acme", key.split("-")[1])


async def test_public_address_without_keys_is_refused(worker: FakeWorker, folder: Path) -> None:
    async with gateway_process(
        folder, worker, command=SERVE, wait_ready=False, host="0.0.0.0"
    ) as gateway:
        assert await gateway.ended() == 2
        assert "there are no keys" in gateway.lines[0]
