"""Keys and tenants: who may enter, what a key may use, and what of it the worker sees."""

import asyncio
import stat
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from gateway.admission import KeyLimits, add_record, new_key, remove_record
from gateway.errors import ConfigError
from gateway.settings import load_settings
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, MESSAGES, each_api
from tests.integration.process import SERVE, gateway_process
from tests.integration.running import running_gateway
from tests.integration.waiting import eventually

_BAD_KEYS = {
    "none": {},
    "empty": {"authorization": ""},
    "no_scheme": {"authorization": "sg-aaaaaaaaaaaa-" + "a" * 43},
    "basic": {"authorization": "Basic c2c6c2c="},
    "malformed": {"authorization": "Bearer hunter2"},
    "never_issued": {"authorization": "Bearer sg-aaaaaaaaaaaa-" + "a" * 43},
    "not_ascii": {"authorization": "Bearer sg-ÿ"},
}


def _issue(file: Path, *, tenant: str = "acme", **limits: int) -> str:
    key, record = new_key(tenant=tenant, name="", created="2026-01-01", limits=KeyLimits(**limits))
    add_record(file, record)
    return key


def _bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.fixture
def key_file(folder: Path) -> Path:
    return folder / "keys"


@pytest.mark.parametrize("headers", _BAD_KEYS.values(), ids=_BAD_KEYS)
async def test_without_a_good_key_nothing_reaches_the_worker(
    worker: FakeWorker, key_file: Path, headers: dict[str, str]
) -> None:
    _issue(key_file)
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    async with running_gateway(worker, keys={"file": key_file}) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(), headers=raw)
        models = await gateway.client.get("/v1/models", headers=raw)

    for found in (answer, models):
        assert found.status_code == 401
        assert found.headers["www-authenticate"] == "Bearer"
        assert found.json()["error"]["code"] == "invalid_api_key"
        assert found.json()["error"]["type"] == "authentication_error"
    assert worker.requests == []


async def test_each_sdk_raises_its_authentication_error(worker: FakeWorker, key_file: Path) -> None:
    async with running_gateway(worker, keys={"file": key_file}) as gateway:
        with pytest.raises(openai.AuthenticationError):
            await CHAT.ask(gateway.url, {})
        with pytest.raises(anthropic.AuthenticationError):
            await MESSAGES.ask(gateway.url, {})
        answer = await gateway.client.post(MESSAGES.path, json=MESSAGES.body())

    assert answer.json()["type"] == "error"


@each_api
async def test_key_is_taken_as_bearer_and_as_anthropic_sends_it(
    worker: FakeWorker, key_file: Path, api: Any
) -> None:
    key = _issue(key_file)
    async with running_gateway(worker, keys={"file": key_file}) as gateway:
        bearer = await gateway.client.post(api.path, json=api.body(), headers=_bearer(key))
        other = await gateway.client.post(api.path, json=api.body(), headers={"x-api-key": key})

    assert (bearer.status_code, other.status_code) == (200, 200)


async def test_models_take_a_key_as_anthropic_sends_it(worker: FakeWorker, key_file: Path) -> None:
    key = _issue(key_file)
    async with running_gateway(worker, keys={"file": key_file}) as gateway:
        answer = await gateway.client.get("/v1/models", headers={"x-api-key": key})

    assert answer.status_code == 200


async def test_probes_and_scrapers_need_no_key(worker: FakeWorker, key_file: Path) -> None:
    async with running_gateway(worker, keys={"file": key_file}) as gateway:
        paths = ("/health/live", "/health/ready", "/health/workers", "/metrics")
        statuses = [(await gateway.client.get(path)).status_code for path in paths]

    assert statuses == [200] * 4


async def test_key_file_is_followed_without_a_restart(worker: FakeWorker, key_file: Path) -> None:
    async with running_gateway(worker, keys={"file": key_file}) as gateway:

        async def ask(key: str) -> int:
            answer = await gateway.client.post(CHAT.path, json=CHAT.body(), headers=_bearer(key))
            return answer.status_code

        async def until(key: str, status: int) -> None:
            async with asyncio.timeout(2.0):
                while True:
                    if await ask(key) == status:
                        return
                    await asyncio.sleep(0.01)

        key = _issue(key_file)
        await until(key, 200)
        assert remove_record(key_file, key.split("-")[1])
        await until(key, 401)


async def test_broken_key_file_locks_nobody_out(worker: FakeWorker, key_file: Path) -> None:
    key = _issue(key_file)
    async with running_gateway(worker, keys={"file": key_file}) as gateway:
        # In one piece: a file that is being written may be seen empty, which is no key at all.
        broken = key_file.with_suffix(".new")
        await asyncio.to_thread(broken.write_text, "not a record\n", encoding="utf-8")
        await asyncio.to_thread(broken.replace, key_file)
        await asyncio.sleep(0.2)

        answer = await gateway.client.post(CHAT.path, json=CHAT.body(), headers=_bearer(key))

    assert answer.status_code == 200


async def test_tenants_are_told_apart_and_keys_of_one_are_not(
    worker: FakeWorker, key_file: Path
) -> None:
    keys = [_issue(key_file, tenant=tenant) for tenant in ("acme", "acme", "other")]
    async with running_gateway(worker, keys={"file": key_file}) as gateway:
        for key in keys:
            await gateway.client.post(CHAT.path, json=CHAT.body(), headers=_bearer(key))

    sent = [request.json() for request in worker.requests]
    salts = [body["cache_salt"] for body in sent]
    tenants = [body["vllm_xargs"]["specgate_tenant"] for body in sent]
    assert salts[0] == salts[1] != salts[2]
    assert tenants[0] == tenants[1] != tenants[2]
    assert b"acme" not in worker.requests[0].body


async def test_key_is_neither_logged_nor_sent_on(worker: FakeWorker, folder: Path) -> None:
    key = _issue(folder / "keys")
    log = {"format": "json", "level": "debug"}
    keys = {"file": str(folder / "keys")}
    async with gateway_process(folder, worker, keys=keys, log=log) as gateway:
        body = CHAT.body(stream=True, messages=[{"role": "user", "content": "a private matter"}])
        await gateway.client.post(CHAT.path, json=body, headers=_bearer(key))
        await eventually(lambda: any(CHAT.path in line for line in gateway.lines))

        text = "\n".join(gateway.lines)
        lines = [line for line in gateway.logged("request") if line["path"] == CHAT.path]
        secret = key.split("-", 2)[2]  # which may hold dashes itself
        assert secret not in text
        assert "private matter" not in text
        assert "hello" not in text
        assert secret not in str(worker.requests[0])
        assert (lines[0]["tenant"], lines[0]["key"]) == ("acme", key.split("-")[1])


async def test_command_issues_lists_and_revokes(worker: FakeWorker, folder: Path) -> None:
    file = folder / "keys"

    async def keys(*arguments: str) -> str:
        command = await asyncio.create_subprocess_exec(
            SERVE[0], "keys", *arguments, "--file", str(file), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await command.communicate()
        assert command.returncode == 0
        return out.decode().strip()

    key = await keys("create", "--tenant", "acme", "--requests-per-minute", "1")
    listed = await keys("list")
    async with running_gateway(worker, keys={"file": file}) as gateway:
        statuses = [
            (
                await gateway.client.post(CHAT.path, json=CHAT.body(), headers=_bearer(key))
            ).status_code
            for _ in range(2)
        ]
    await keys("revoke", key.split("-")[1])

    assert statuses == [200, 429]
    assert key.split("-")[1] in listed
    assert key.split("-", 2)[2] not in listed + file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert await keys("list") == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_open_door_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="there are no keys"):
        load_settings(None, {"SPECGATE_GATEWAY__HOST": host})


async def test_open_door_is_refused_by_the_command(worker: FakeWorker, folder: Path) -> None:
    async with gateway_process(
        folder, worker, command=SERVE, wait_ready=False, host="0.0.0.0"
    ) as gateway:
        assert await gateway.ended() == 2
        assert "there are no keys" in gateway.lines[0]


async def test_open_door_with_keys_serves(worker: FakeWorker, folder: Path) -> None:
    key = _issue(folder / "keys")
    keys = {"file": str(folder / "keys")}
    async with gateway_process(
        folder, worker, command=SERVE, host="127.0.0.1", keys=keys, allow_without_keys=False
    ) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, verify=False) as client:
            answer = await client.post(CHAT.path, json=CHAT.body(), headers=_bearer(key))

        assert answer.status_code == 200


async def test_key_for_one_model_may_not_use_another(worker: FakeWorker, key_file: Path) -> None:
    key, record = new_key(
        tenant="acme", name="", created="2026-01-01", limits=KeyLimits(), models=("other-model",)
    )
    add_record(key_file, record)
    async with running_gateway(worker, keys={"file": key_file}) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(), headers=_bearer(key))
        unnamed = {name: value for name, value in CHAT.body().items() if name != "model"}
        default = await gateway.client.post(CHAT.path, json=unnamed, headers=_bearer(key))
        models = await gateway.client.get("/v1/models", headers=_bearer(key))

    assert answer.status_code == default.status_code == 403
    assert answer.json()["error"]["code"] == "permission_denied"
    assert models.json()["data"] == []
    assert worker.requests == []
