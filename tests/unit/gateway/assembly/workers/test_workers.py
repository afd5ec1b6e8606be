from pathlib import Path

import pytest

from gateway.assembly.workers import discoveries
from gateway.errors import ConfigError
from gateway.settings import GatewaySettings, UpstreamSettings
from gateway.upstream import WorkerAddress
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.application import running, started
from tests.unit.gateway.upstream.workers import pool_of

CHAT = "/v1/chat/completions"


async def test_remote_workers_are_named_by_host_and_port() -> None:
    settings = GatewaySettings(workers=("http://127.0.0.1:1/", "http://[::1]:2"))
    async with started(settings) as services:
        assert [worker.id for worker in services.pool.workers] == ["127.0.0.1:1", "[::1]:2"]
        assert services.supervisor is None


async def test_without_workers_and_socket_folder_there_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"gateway\.workers is empty"):
        async with started(GatewaySettings()):
            pass


async def test_the_workers_key_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("worker-key\n", encoding="utf-8")
    upstream = {"api_key_file": path}
    async with FakeWorker() as worker, running(worker.url, upstream=upstream) as gateway:
        await gateway.client.post(CHAT, json={"messages": []})

        assert worker.requests[0].headers["authorization"] == "Bearer worker-key"


async def test_a_worker_may_join_while_the_file_of_the_workers_key_is_missing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "secret"
    path.write_text("worker-key\n", encoding="utf-8")
    settings = GatewaySettings(
        workers=("dns+http://localhost:1",), upstream=UpstreamSettings(api_key_file=path)
    )
    async with pool_of([]) as pool:
        (discovery,) = discoveries(settings, pool)
        path.unlink()

        assert discovery.make(WorkerAddress("a:1", "http://a:1")).id == "a:1"


async def test_every_address_of_a_dns_name_is_a_worker() -> None:
    async with FakeWorker() as worker:
        name = f"dns+http://localhost:{worker.port}"
        async with running(name, upstream={"probe_seconds": 0.05}) as gateway:
            answer = await gateway.client.post(CHAT, json={"messages": [], "max_tokens": 1})
            ids = [found.id for found in gateway.services.pool.workers]

        assert answer.status_code == 200
        assert f"127.0.0.1:{worker.port}" in ids
        await eventually(lambda: worker.connections == 0)
