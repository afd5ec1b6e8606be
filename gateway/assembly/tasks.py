"""The background tasks of a process."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass

import structlog

from gateway.assembly.process import Lifecycle

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Tasks:
    """Background tasks, cancelled when `stack` closes; one that fails stops the gateway."""

    stack: AsyncExitStack
    lifecycle: Lifecycle

    def own(self, work: Coroutine[None, None, None], *, name: str) -> None:
        """Start a task."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._check)

        async def end() -> None:
            task.cancel()
            await asyncio.wait({task})

        self.stack.push_async_callback(end)

    def _check(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background_task_failed", task=task.get_name(), exc_info=error)
            self.lifecycle.fail(f"{task.get_name()}: {error!r}")
