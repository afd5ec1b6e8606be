import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from loadtest.chaos.crowd import Crowd
from loadtest.chaos.faults import CONNECTION, Fault, Kind
from loadtest.chaos.inflict import inflict_on_connection, inflict_on_service
from loadtest.chaos.proxy import FaultProxy
from loadtest.chaos.report import has_one_ending, is_lost_replay
from loadtest.chaos.stages import ProxiedStage, ServiceStage
from loadtest.load import Client, Ending, MadeUpPrompts, load_scenario, make_plan
from loadtest.load.run import Server
from loadtest.processes import ChildProcess, Command
from loadtest.service import RunningGateway
from tests.fakes.worker import FakeWorker
from tests.integration.running import running_gateway
from tests.integration.waiting import eventually

SCENARIO = load_scenario("chat").with_arrivals(requests_per_second=40, seconds=2)
SLOW = {"fake": {"chunks": 8, "gap_seconds": 0.01}}


def fault(kind: Kind, *, passed: int = 0) -> Fault:
    return Fault(kind, pause_seconds=0, lasting_seconds=0.3, bytes_passed=passed, proxy=0)


@asynccontextmanager
async def stage_with_crowd(folder: Path) -> AsyncIterator[tuple[ProxiedStage, Crowd]]:
    """A gateway in this process before two ways to a fake worker, with clients."""
    mix = tuple(traffic.model_copy(update={"body": SLOW}) for traffic in SCENARIO.mix)
    plan = make_plan(SCENARIO.model_copy(update={"mix": mix}), MadeUpPrompts(), seed=0)
    upstream = {"probe_seconds": 0.05, "slow_start_seconds": 0.0, "breaker_seconds": 0.05}
    async with FakeWorker() as worker:
        proxies = FaultProxy(worker.port), FaultProxy(worker.port)
        for proxy in proxies:
            await proxy.listen()
        urls = tuple(f"http://127.0.0.1:{proxy.port}" for proxy in proxies)
        async with (
            running_gateway(
                *map(_Remote, urls), request={"silence_seconds": 0.5}, upstream=upstream
            ) as gateway,
            Client(gateway.url, limit_seconds=10.0, connections="fresh") as client,
        ):
            child = ChildProcess(Command("gateway", ["true"], "", 1.0, {}), log=folder / "log")
            running = RunningGateway(gateway.port, child, folder / "gateway.log")
            crowd = Crowd(client, Server("fake-model", counts_tokens=True), plan, plan[0])
            sending = asyncio.create_task(crowd.run())
            await eventually(lambda: len(crowd.outcomes) > 3)
            yield ProxiedStage(running, proxies), crowd
            crowd.stop()
            await sending
        for proxy in proxies:
            await proxy.close()


class _Remote(FakeWorker):
    """A worker that is somewhere else; all that `running_gateway` asks is where."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._remote_url = url

    @property
    def url(self) -> str:
        return self._remote_url


@pytest.mark.parametrize(
    ("kind", "passed"),
    [
        *((kind, 0) for kind in CONNECTION if kind is not Kind.RESTART_GATEWAY),
        *((kind, 500) for kind in (Kind.RESET_ANSWER, Kind.HANG_ANSWER, Kind.GARBAGE)),
    ],
)
async def test_a_fault_of_a_connection_happens_and_the_gateway_recovers(
    tmp_path: Path, kind: Kind, passed: int
) -> None:
    async with stage_with_crowd(tmp_path) as (stage, crowd):
        injury = await inflict_on_connection(fault(kind, passed=passed), stage, crowd)

    assert injury is not None
    assert injury.kind is kind
    assert injury.is_settled
    assert injury.recover_seconds is not None
    assert 0 < injury.recover_seconds < 3
    answers = [outcome.answer for outcome in crowd.outcomes]
    assert all(has_one_ending(answer) for answer in answers)
    assert not any(is_lost_replay(answer, tries=1) for answer in answers)
    assert Ending.HUNG not in {answer.ending for answer in answers}
    assert len(answers) == crowd.began


async def test_a_fault_that_finds_no_answer_to_hit_did_not_happen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loadtest.chaos.inflict._HIT_SECONDS", 0.3)
    async with stage_with_crowd(tmp_path) as (stage, crowd):
        beyond_every_answer = fault(Kind.CUT_ANSWER, passed=10**6)

        assert await inflict_on_connection(beyond_every_answer, stage, crowd) is None
        assert await inflict_on_connection(fault(Kind.CUT_ANSWER), stage, crowd) is not None


async def test_without_a_disk_it_cannot_be_full(tmp_path: Path) -> None:
    async with stage_with_crowd(tmp_path) as (proxied, crowd):
        stage = ServiceStage(proxied.gateway, tmp_path / "worker.log", None, "no", tmp_path)

        assert await inflict_on_service(fault(Kind.FULL_DISK), stage, crowd) is None
