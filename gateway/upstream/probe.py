"""The background look at each worker: is it healthy, and what does it serve?"""

import asyncio
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import structlog

from gateway.errors import UpstreamError, WorkerLostError
from gateway.upstream.pool import Pool
from gateway.upstream.worker import Worker

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProbePolicy:
    """How often to look, how long to wait, and how many failures in a row mean down."""

    interval_seconds: float
    timeout_seconds: float
    failures: int
    models_seconds: float


class Prober:
    """Watches the workers of a pool; `run` is a task that its owner cancels."""

    def __init__(self, pool: Pool, policy: ProbePolicy) -> None:
        self._pool = pool
        self._policy = policy

    async def run(self) -> None:
        """Watch until cancelled."""
        watched: set[Worker] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                workers = set(self._pool.workers)
                for worker in workers - watched:
                    group.create_task(self._watch(worker), name=f"probe-{worker.id}")
                watched = workers
                await self._pool.changed()

    async def check(self, worker: Worker) -> bool:
        """Look once: True if the worker is healthy. Changes its state in the pool."""
        try:
            status, _ = await worker.connection.get(
                "/health", timeout_seconds=self._policy.timeout_seconds
            )
            if status == 200 and not worker.up:
                await self._read_models(worker)
        except UpstreamError as error:
            self._note_failure(worker, lost=isinstance(error, WorkerLostError))
            return False
        if status != 200:
            # vLLM answers 503 when its engine is dead: no need to ask again.
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
            if await self.check(worker) and rounds % every == every - 1:
                await self._refresh_models(worker)
            rounds += 1
            await asyncio.sleep(self._policy.interval_seconds)

    async def _refresh_models(self, worker: Worker) -> None:
        try:
            await self._read_models(worker)
        except UpstreamError as error:
            log.warning("worker_models_unknown", worker=worker.id, error=error.message)

    async def _read_models(self, worker: Worker) -> None:
        answer = await worker.connection.get_json(
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
    """A model entry whose `root` does not tell where the weights lie on the worker's disk."""
    root = entry.get("root")
    if isinstance(root, str) and PurePath(root).is_absolute():
        return {**entry, "root": entry["id"]}
    return entry
