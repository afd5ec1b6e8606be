"""Background probes of each worker: its health, its models and its load."""

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

import structlog

from gateway.errors import UpstreamError, WorkerLostError
from gateway.upstream.load import read_load
from gateway.upstream.pool import Pool
from gateway.upstream.worker import Worker

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProbePolicy:
    """Probe interval and timeout, failures in a row that mean down, interval for models."""

    interval_seconds: float
    timeout_seconds: float
    failures: int
    models_seconds: float


class Prober:
    """Probes the workers of a pool; the owner cancels `run`."""

    def __init__(self, pool: Pool, policy: ProbePolicy) -> None:
        self._pool = pool
        self._policy = policy

    async def run(self) -> None:
        """Probe all workers regularly, until cancelled."""
        watched: set[Worker] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                workers = set(self._pool.workers)
                for worker in workers - watched:
                    group.create_task(self._watch(worker), name=f"probe-{worker.id}")
                watched = workers
                await self._pool.changed()

    async def check(self, worker: Worker) -> bool:
        """Probe once and update the pool; True if the worker is healthy.

        When a worker dies, all of its requests ask this at once; they share one probe.
        """
        return await worker.probe.get(partial(self._probe, worker))

    async def _probe(self, worker: Worker) -> bool:
        try:
            status, _ = await worker.client.get(
                "/health", timeout_seconds=self._policy.timeout_seconds
            )
            if status == 200 and not worker.up:
                await self._read_models(worker)
        except UpstreamError as error:
            self._note_failure(worker, lost=isinstance(error, WorkerLostError))
            return False
        if status != 200:
            # vLLM answers 503 once its engine is dead: no need for more probes.
            self._note_failure(worker, lost=True)
            return False
        if not worker.up:
            log.info("worker_up", worker=worker.id, models=sorted(worker.models))
        self._pool.mark_up(worker)
        return True

    async def _watch(self, worker: Worker) -> None:
        rounds = 0
        every = max(1, round(self._policy.models_seconds / self._policy.interval_seconds))
        while worker in self._pool.workers:
            if await self.check(worker):
                if rounds % every == every - 1:
                    await self._refresh_models(worker)
                if self._pool.reads_prompts:
                    await self._read_load(worker)
            rounds += 1
            await asyncio.sleep(self._policy.interval_seconds)

    async def _read_load(self, worker: Worker) -> None:
        try:
            _, page = await worker.client.get(
                "/metrics", timeout_seconds=self._policy.timeout_seconds
            )
        except UpstreamError as error:  # the health check judges it
            log.debug("worker_load_unknown", worker=worker.id, error=error.message)
            return
        if (report := read_load(page)) is not None:
            self._pool.report(worker, report)

    async def _refresh_models(self, worker: Worker) -> None:
        try:
            await self._read_models(worker)
        except UpstreamError as error:
            log.warning("worker_models_unknown", worker=worker.id, error=error.message)

    async def _read_models(self, worker: Worker) -> None:
        answer = await worker.client.get_json(
            "/v1/models", timeout_seconds=self._policy.timeout_seconds
        )
        entries = answer.get("data")
        if not isinstance(entries, list):
            raise UpstreamError("The engine sent no list of models.")
        worker.models = {
            entry["id"]: _without_path(entry)
            for entry in entries
            if isinstance(entry, dict) and isinstance(entry.get("id"), str)
        }

    def _note_failure(self, worker: Worker, *, lost: bool) -> None:
        worker.failed_probes += 1
        if worker.up and (lost or worker.failed_probes >= self._policy.failures):
            log.warning("worker_down", worker=worker.id, failed_probes=worker.failed_probes)
            self._pool.mark_down(worker)


def _without_path(entry: dict[str, Any]) -> dict[str, Any]:
    """A model entry whose `root` does not reveal a path on the worker's disk."""
    root = entry.get("root")
    if isinstance(root, str) and PurePath(root).is_absolute():
        return {**entry, "root": entry["id"]}
    return entry
