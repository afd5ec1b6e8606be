import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import UpstreamError, WorkerLostError, WorkerTimeoutError
from gateway.supervisor import (
    Backoff,
    Supervisor,
    SupervisorPolicy,
    WorkerCommand,
    WorkerRefusedError,
)
from gateway.types import WorkerId
from tests.integration.waiting import eventually

RUNS = WorkerCommand(("sleep", "60"), None)
QUICK = 0.05


class ScriptedProbe:
    """A worker as its supervisor sees it; a test may change its state."""

    def __init__(self) -> None:
        self.healthy = True
        self.load: bytes = b'{"server_load": 0}'
        self.iterations: bytes = b"1.0"
        self.models: bytes = b'{"data":[{"id":"m"}]}'
        self.trial: UpstreamError | None = None
        self.trials: list[bytes] = []
        self.is_shut = False

    def shut(self) -> None:
        self.is_shut = True

    def reopen(self) -> None:
        self.is_shut = False

    async def get(self, path: str, *, timeout_seconds: float) -> tuple[int, bytes]:
        if not self.healthy:
            raise WorkerLostError("refused", sent=False)
        metrics = b'# x\nvllm:iteration_tokens_total_count{engine="0"} ' + self.iterations + b"\n"
        bodies = {"/health": b"", "/load": self.load, "/metrics": metrics}
        return 200, {**bodies, "/v1/models": self.models}[path]

    async def call(self, path: str, body: bytes, *, timeout_seconds: float) -> int:
        assert path == "/v1/completions"
        self.trials.append(body)
        if self.trial is not None:
            raise self.trial
        return 200


class Counted:
    """Counts restarts."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def worker_restarted(self, worker: WorkerId, reason: str) -> None:
        self.reasons.append(reason)


def policy(*, start: float = 5, unhealthy: float = 5, stalled: float = 5) -> SupervisorPolicy:
    return SupervisorPolicy(
        check_seconds=0.01,
        probe_seconds=0.1,
        start_seconds=start,
        unhealthy_seconds=unhealthy,
        stalled_seconds=stalled,
        stop_seconds=1,
    )


@asynccontextmanager
async def supervised(
    probe: ScriptedProbe,
    counted: Counted,
    rules: SupervisorPolicy,
    command: WorkerCommand = RUNS,
) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(
        WorkerId("local"),
        command,
        probe,
        counted,
        policy=rules,
        backoff=Backoff(first_seconds=0.01, most_seconds=0.02, reset_seconds=60),
    )
    task = asyncio.create_task(supervisor.run())
    try:
        yield supervisor
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert supervisor.state == "stopped"
        assert supervisor.pid is None


async def test_a_healthy_worker_is_left_alone() -> None:
    probe, counted = ScriptedProbe(), Counted()
    probe.healthy = False
    async with supervised(probe, counted, policy()) as supervisor:
        await eventually(lambda: supervisor.pid is not None)
        assert supervisor.state == "starting"
        probe.healthy = True
        await eventually(lambda: supervisor.state == "ready")
        first = supervisor.pid

        await asyncio.sleep(QUICK)

        assert (supervisor.pid, supervisor.restarts, counted.reasons) == (first, 0, [])


async def test_a_worker_that_exits_is_restarted() -> None:
    counted = Counted()
    command = WorkerCommand(("sh", "-c", "sleep 0.05; exit 1"), None)
    async with supervised(ScriptedProbe(), counted, policy(), command) as supervisor:
        await eventually(lambda: supervisor.restarts >= 2)

        assert supervisor.last_reason == "exited"
        assert set(counted.reasons) == {"exited"}


async def test_a_worker_that_exits_while_starting_is_restarted() -> None:
    probe, counted = ScriptedProbe(), Counted()
    probe.healthy = False
    command = WorkerCommand(("sh", "-c", "exit 1"), None)
    async with supervised(probe, counted, policy(), command) as supervisor:
        await eventually(lambda: supervisor.restarts >= 2)

        assert set(counted.reasons) == {"exited"}


async def test_a_worker_that_never_becomes_ready_is_restarted() -> None:
    probe, counted = ScriptedProbe(), Counted()
    probe.healthy = False
    async with supervised(probe, counted, policy(start=0.05)):
        await eventually(lambda: counted.reasons[:1] == ["start_timeout"])


async def test_a_worker_that_is_unhealthy_for_long_is_restarted() -> None:
    probe, counted = ScriptedProbe(), Counted()
    async with supervised(probe, counted, policy(unhealthy=0.1)) as supervisor:
        await eventually(lambda: supervisor.state == "ready")
        first = supervisor.pid
        probe.healthy = False
        await asyncio.sleep(0.03)
        assert counted.reasons == []

        await eventually(lambda: counted.reasons == ["unhealthy"])
        probe.healthy = True
        await eventually(lambda: supervisor.state == "ready")

        assert supervisor.pid not in (None, first)


async def test_a_worker_without_progress_gets_a_trial_and_is_restarted() -> None:
    probe, counted = ScriptedProbe(), Counted()
    probe.load, probe.trial = b'{"server_load": 2}', WorkerTimeoutError("silent")
    async with supervised(probe, counted, policy(stalled=0.1)):
        await eventually(lambda: counted.reasons[:1] == ["stalled"])

        assert [json.loads(trial)["max_tokens"] for trial in probe.trials[:1]] == [1]


async def test_a_hung_worker_has_a_short_grace_period() -> None:
    """It does nothing with SIGTERM either, and requests wait for the next one."""
    probe, counted = ScriptedProbe(), Counted()
    probe.load = b'{"server_load": 1}'
    deaf = WorkerCommand(("sh", "-c", "trap '' TERM; sleep 60"), None)
    rules = replace(policy(stalled=0.1), stop_seconds=2, hung_stop_seconds=0.05)
    async with supervised(probe, counted, rules, deaf) as supervisor:
        await eventually(lambda: supervisor.state == "ready")
        first = supervisor.pid

        await eventually(lambda: supervisor.pid not in (None, first), within_seconds=1.5)

        assert counted.reasons == ["stalled"]


async def test_nothing_is_sent_to_a_worker_that_is_stopping() -> None:
    probe, counted = ScriptedProbe(), Counted()
    probe.load = b'{"server_load": 1}'
    deaf = WorkerCommand(("sh", "-c", "trap '' TERM; sleep 60"), None)
    rules = replace(policy(stalled=0.1), hung_stop_seconds=0.3)
    async with supervised(probe, counted, rules, deaf) as supervisor:
        await eventually(lambda: supervisor.state == "ready")
        assert not probe.is_shut

        await eventually(lambda: probe.is_shut)
        assert counted.reasons == []  # it still runs
        await eventually(lambda: not probe.is_shut)

        assert counted.reasons == ["stalled"]


async def test_a_busy_worker_is_not_restarted() -> None:
    probe, counted = ScriptedProbe(), Counted()
    probe.load = b'{"server_load": 200}'
    async with supervised(probe, counted, policy(stalled=0.1)) as supervisor:
        await eventually(lambda: supervisor.state == "ready")
        for count in range(30):
            probe.iterations = str(count).encode()
            await asyncio.sleep(0.01)

        assert counted.reasons == []


async def test_a_worker_that_answers_the_trial_is_not_restarted() -> None:
    class Answers(ScriptedProbe):
        async def call(self, path: str, body: bytes, *, timeout_seconds: float) -> int:
            self.iterations = str(len(self.trials) + 2).encode()
            return await super().call(path, body, timeout_seconds=timeout_seconds)

    probe, counted = Answers(), Counted()
    probe.load = b'{"server_load": 1}'
    async with supervised(probe, counted, policy(stalled=0.1)):
        await eventually(lambda: len(probe.trials) >= 3)

        assert counted.reasons == []


@pytest.mark.parametrize(
    ("load", "iterations"),
    [
        (b"oops", b"1"),
        (b"{}", b"1"),
        (b"[]", b"1"),
        (b'{"server_load": null}', b"1"),
        (b'{"server_load": 1}', b"many"),
        (b'{"server_load": 1}', b""),
    ],
    ids=["no-json", "no-load", "no-object", "null", "no-number", "no-counter"],
)
async def test_with_invalid_metrics_a_worker_is_judged_by_its_health(
    load: bytes, iterations: bytes
) -> None:
    probe, counted = ScriptedProbe(), Counted()
    probe.load, probe.iterations = load, iterations
    async with supervised(probe, counted, policy(stalled=0.02)) as supervisor:
        await eventually(lambda: supervisor.state == "ready")
        await asyncio.sleep(0.1)

        assert (supervisor.state, counted.reasons) == ("ready", [])


@pytest.mark.parametrize("models", [b"oops", b"{}", b'{"data":[]}', b'{"data":[7]}'], ids=repr)
async def test_a_failed_trial_does_not_stop_the_supervisor(models: bytes) -> None:
    probe, counted = ScriptedProbe(), Counted()
    probe.load, probe.models = b'{"server_load": 1}', models
    async with supervised(probe, counted, policy(stalled=0.1)):
        await eventually(lambda: counted.reasons[:1] == ["stalled"])

        assert probe.trials == []


@pytest.mark.parametrize("with_log", [True, False], ids=["own-log", "shared-log"])
async def test_a_worker_that_refuses_its_settings_is_not_restarted(
    tmp_path: Path, with_log: bool
) -> None:
    probe, counted = ScriptedProbe(), Counted()
    probe.healthy = False
    log = tmp_path / "w.log" if with_log else None
    command = WorkerCommand(("sh", "-c", "echo engine.model: is missing; exit 2"), log)
    supervisor = Supervisor(
        WorkerId("local"), command, probe, counted, policy=policy(), backoff=Backoff(1, 1, 1)
    )

    with pytest.raises(WorkerRefusedError) as caught:
        await supervisor.run()

    assert counted.reasons == []
    assert str(caught.value) == (
        "engine.model: is missing"
        if with_log
        else "the worker refused its settings; see its output"
    )


async def test_a_restart_waits_longer_each_time() -> None:
    counted = Counted()
    command = WorkerCommand(("sh", "-c", "exit 1"), None)
    supervisor = Supervisor(
        WorkerId("local"),
        command,
        ScriptedProbe(),
        counted,
        policy=policy(),
        backoff=Backoff(first_seconds=60, most_seconds=60, reset_seconds=60),
    )
    task = asyncio.create_task(supervisor.run())
    await eventually(lambda: supervisor.restarts == 2)

    await asyncio.sleep(QUICK)

    assert (supervisor.state, supervisor.restarts) == ("waiting", 2)
    task.cancel()
    await asyncio.wait({task})
