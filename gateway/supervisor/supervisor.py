"""Keep one worker running: start it, watch it, and restart it.

A worker is restarted if its process ended, if its health check keeps failing, or if it has requests
and makes no progress; never because it is slow or busy.
"""

import asyncio
import json
import re
import time
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import structlog

from gateway.errors import UpstreamError, WorkerTimeoutError
from gateway.supervisor.backoff import Backoff
from gateway.supervisor.facts import SupervisorFacts
from gateway.supervisor.process import WorkerCommand, WorkerProcess
from gateway.supervisor.progress import Progress, ProgressWatch
from gateway.types import WorkerId

log = structlog.get_logger(__name__)

SupervisorState = Literal["starting", "ready", "waiting", "stopped"]
RestartReason = Literal["exited", "unhealthy", "stalled", "start_timeout"]
RESTART_REASONS: tuple[str, ...] = get_args(RestartReason)
"""The values of the metric label `reason`."""
_HUNG: frozenset[RestartReason] = frozenset({"unhealthy", "stalled"})
_CONFIG_EXIT_STATUS = 2
_ITERATIONS = re.compile(rb"^vllm:iteration_tokens_total_count(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


class WorkerRefusedError(Exception):
    """The worker reports that its settings are wrong; a restart cannot help."""


class WorkerControl(Protocol):
    """The gateway's client of the worker, for health checks and for all requests."""

    def shut(self) -> None:
        """Refuse all requests, as if the worker did not listen."""

    def reopen(self) -> None:
        """Allow requests again."""

    async def get(self, path: str, *, timeout_seconds: float) -> tuple[int, bytes]:
        """Status and body of a GET; raises `UpstreamError`."""

    async def call(self, path: str, body: bytes, *, timeout_seconds: float) -> int:
        """Status of a JSON POST; raises `UpstreamError`."""


class RestartObserver(Protocol):
    """Counts restarts."""

    def worker_restarted(self, worker: WorkerId, reason: str) -> None:
        """A worker is about to be restarted."""


@dataclass(frozen=True, slots=True)
class SupervisorPolicy:
    """Intervals and timeouts, in seconds.

    Attributes:
        check_seconds: Between two checks.
        probe_seconds: Longest wait for one check.
        start_seconds: From start to healthy; loading a large model takes minutes.
        unhealthy_seconds: Failing health checks for this time lead to a restart.
        stalled_seconds: Open requests without an engine iteration for this time do too.
        stop_seconds: From SIGTERM to SIGKILL.
        hung_stop_seconds: The same for a hung worker: it rarely reacts to SIGTERM, and requests
            are waiting for the next one.
    """

    check_seconds: float
    probe_seconds: float
    start_seconds: float
    unhealthy_seconds: float
    stalled_seconds: float
    stop_seconds: float
    hung_stop_seconds: float = 2.0


class Supervisor:
    """Owns one worker. Cancelling the task of `run` stops the worker.

    Attributes:
        state: What the worker is doing.
        restarts: How often it was restarted.
        last_reason: Reason of the last restart.
    """

    def __init__(
        self,
        worker: WorkerId,
        command: WorkerCommand,
        client: WorkerControl,
        observer: RestartObserver,
        *,
        policy: SupervisorPolicy,
        backoff: Backoff,
    ) -> None:
        self.worker = worker
        self.state: SupervisorState = "starting"
        self.restarts = 0
        self.last_reason: RestartReason | None = None
        self._command = command
        self._client = client
        self._observer = observer
        self._policy = policy
        self._backoff = backoff
        self._process: WorkerProcess | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the worker, while it runs."""
        return None if self._process is None else self._process.pid

    def facts(self) -> SupervisorFacts:
        """Tell what the worker is doing."""
        return SupervisorFacts(self.state, self.pid, self.restarts, self.last_reason)

    async def run(self) -> None:
        """Keep the worker running until cancelled.

        Raises:
            WorkerRefusedError: Its settings are wrong.
        """
        try:
            while True:
                pause = await self._run_once()
                self.state = "waiting"
                await asyncio.sleep(pause)
        finally:
            self.state = "stopped"

    async def _run_once(self) -> float:
        """Run the worker until it has to be restarted; returns the pause before that."""
        self.state = "starting"
        process = self._process = await WorkerProcess.start(self._command)
        self._client.reopen()
        log.info("worker_starting", worker=self.worker, pid=process.pid)
        exited = asyncio.create_task(process.wait(), name="worker-exit")
        grace_seconds = self._policy.stop_seconds
        try:
            reason = await self._live(process, exited)
            if reason in _HUNG:
                grace_seconds = min(grace_seconds, self._policy.hung_stop_seconds)
        except asyncio.CancelledError:
            log.info("worker_stopping", worker=self.worker, longest_seconds=grace_seconds)
            raise
        finally:
            self._process = None
            # A worker that is stopping may still listen, and fail its requests.
            self._client.shut()
            await process.stop(grace_seconds=grace_seconds)
            exited.cancel()
        lived = time.monotonic() - process.started_seconds
        if process.exit_status == _CONFIG_EXIT_STATUS:
            lines = process.last_lines(5) or ["the worker refused its settings; see its output"]
            raise WorkerRefusedError("\n".join(lines))
        pause = self._backoff.after(lived)
        self.restarts += 1
        self.last_reason = reason
        self._observer.worker_restarted(self.worker, reason)
        log.error(
            "worker_restarting",
            worker=self.worker,
            reason=reason,
            exit_status=process.exit_status,
            lived_seconds=round(lived, 1),
            pause_seconds=pause,
            last_lines=process.last_lines(20),
        )
        return pause

    async def _live(self, process: WorkerProcess, exited: asyncio.Task[int]) -> RestartReason:
        while not await self._is_healthy():
            if time.monotonic() - process.started_seconds > self._policy.start_seconds:
                return "start_timeout"
            if await self._ended(exited):
                return "exited"
        self.state = "ready"
        took = time.monotonic() - process.started_seconds
        log.info("worker_ready", worker=self.worker, start_seconds=round(took, 1))
        progress = ProgressWatch(self._policy.stalled_seconds)
        last_healthy = time.monotonic()
        while not await self._ended(exited):
            if await self._is_healthy():
                last_healthy = time.monotonic()
            elif time.monotonic() - last_healthy > self._policy.unhealthy_seconds:
                return "unhealthy"
            if await self._is_stalled(progress):
                return "stalled"
        return "exited"

    async def _ended(self, exited: asyncio.Task[int]) -> bool:
        """Wait for the next check; True if the process ended."""
        done, _ = await asyncio.wait({exited}, timeout=self._policy.check_seconds)
        return bool(done)

    async def _get(self, path: str) -> tuple[int, bytes]:
        return await self._client.get(path, timeout_seconds=self._policy.probe_seconds)

    async def _is_healthy(self) -> bool:
        try:
            status, _ = await self._get("/health")
        except UpstreamError:
            return False
        return status == 200

    async def _is_stalled(self, progress: ProgressWatch) -> bool:
        try:
            open_requests = await self._open_requests()
            iterations = await self._iterations() if open_requests else 0.0
        except UpstreamError:
            return False  # the health check judges a worker that does not answer
        verdict = progress.judge(
            now=time.monotonic(), open_requests=open_requests, iterations=iterations
        )
        if verdict is Progress.SUSPECT:
            log.warning("worker_suspect", worker=self.worker, open_requests=open_requests)
            await self._send_trial()
        return verdict is Progress.STALLED

    async def _open_requests(self) -> int:
        _, body = await self._get("/load")
        try:
            return int(json.loads(body)["server_load"])
        except (ValueError, KeyError, TypeError) as error:
            raise UpstreamError("The engine does not tell its load.") from error

    async def _iterations(self) -> float:
        _, body = await self._get("/metrics")
        try:
            counts = [float(count) for count in _ITERATIONS.findall(body)]
        except ValueError as error:
            raise UpstreamError("The engine's iteration counter is no number.") from error
        if not counts:
            raise UpstreamError("The engine does not count its iterations.")
        return sum(counts)

    async def _send_trial(self) -> None:
        """Request one token. Only the iteration counter matters, not the answer."""
        try:
            _, body = await self._get("/v1/models")
            model = json.loads(body)["data"][0]["id"]
            await self._client.call(
                "/v1/completions",
                json.dumps({"model": model, "prompt": "a", "max_tokens": 1}).encode(),
                timeout_seconds=self._policy.probe_seconds,
            )
        except WorkerTimeoutError:
            log.warning("worker_trial_unanswered", worker=self.worker)
        except (UpstreamError, ValueError, KeyError, IndexError, TypeError) as error:
            log.warning("worker_trial_failed", worker=self.worker, error=str(error))
