"""`specgate canary` against a gateway with a canary that found defects."""

import asyncio

import pytest

from gateway.cli import main
from tests.fakes.worker import FakeWorker
from tests.integration.running import running_gateway
from tests.integration.waiting import eventually
from tests.unit.gateway.json_log import json_log


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


async def test_defects_are_shown_and_sources_opened(capsys: pytest.CaptureFixture[str]) -> None:
    canary = {"share": 1.0, "most_time": 1.0, "shut_after": 1}
    wrong = {"chunks": 3, "tokens_per_chunk": 4, "wrong_token": 5}
    body = {"messages": [], "temperature": 0, "fake": wrong}

    async with FakeWorker() as worker, running_gateway(worker, canary=canary) as gateway:

        async def command(*arguments: str) -> list[str]:
            capsys.readouterr()  # what was logged
            with json_log():
                status = await asyncio.to_thread(main, ["canary", *arguments, "--url", gateway.url])
            assert status == 0
            return capsys.readouterr().out.splitlines()

        assert await command("status") == ["no defects"]
        await gateway.client.post("/v1/chat/completions", json=body)
        labels = {"model": "fake-model", "source": "suffix"}
        await eventually(lambda: gateway.metric("gateway_canary_shut", **labels) == 1)

        shown = ["MODEL       SOURCE  DEFECTS  STATE", "fake-model  suffix  1        shut"]
        assert await command("status") == shown
        assert await command("open", "--model", "other") == shown
        assert await command("open", "--model", "fake-model") == ["no defects"]


def test_a_gateway_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["canary", "status", "--url", "http://127.0.0.1:1"]) == 1

    assert capsys.readouterr().err.startswith("http://127.0.0.1:1")
