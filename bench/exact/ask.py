"""Asks a worker the prompts of a pass, and keeps the answers."""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import httpx

from bench.engine.counts import fallbacks
from bench.engine.worker import WorkerError
from bench.exact.answers import Answer, answer_of, body_of
from bench.exact.plan import MODES, Pass
from bench.exact.records import Records
from bench.rounds import Json
from gateway.verify import Prompt
from loadtest.progress import say

_EVERY = 100
"""Prompts between two lines of progress."""


class Server(Protocol):
    """A worker, or a test's fake."""

    @property
    def model(self) -> str:
        """Its model's name."""

    async def send(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send a request."""

    async def metrics(self) -> str:
        """Its metrics."""


async def ask_all(worker: Server, one: Pass, prompts: Sequence[Prompt], records: Records) -> None:
    """Ask the prompts of a pass that have no answers yet.

    Raises:
        WorkerError: An answer is not one, or speculation failed, so that nothing was compared.
    """
    records.mend(one)
    waiting = deque(records.missing(one, prompts))
    count, began = len(waiting), time.monotonic()

    async def client() -> None:
        while waiting:
            prompt = waiting.popleft()
            records.add(one, prompt, await _ask(worker, one, prompt))
            if (done := count - len(waiting)) % _EVERY == 0:
                say(f"{one.name}: {done} of {count} in {time.monotonic() - began:.0f} s")

    await asyncio.gather(*(client() for _ in range(one.clients)))
    say(f"{one.name}: {count} prompts in {time.monotonic() - began:.0f} s")
    if failed := fallbacks(await worker.metrics()):
        raise WorkerError(f"{one.name}: speculation failed {failed} times")


async def _ask(worker: Server, one: Pass, prompt: Prompt) -> Sequence[Answer]:
    """Ask twice, so that the prefix cache misses and then hits; the reference is asked once."""
    body = body_of(
        prompt, worker.model, salt=secrets.token_hex(8), is_reference=one.is_reference
    ) | _wishes(one)
    found = []
    for _ in range(1 if one.is_reference else 2):
        response = await worker.send("POST", "/v1/chat/completions", body)
        try:
            found.append(answer_of(response, is_streamed=prompt.is_streamed))
        except (ValueError, KeyError, TypeError) as error:
            raise WorkerError(
                f"{one.name}: {prompt.kind}, prompt {prompt.number}: {error!r}"
            ) from error
    return found


def _wishes(one: Pass) -> Json:
    """What a specgate is told with each request; the index of a pass begins empty."""
    if one.serving.drafter != "specgate":
        return {}
    return {"vllm_xargs": {"specgate_mode": MODES[one.source], "specgate_tenant": one.name}}
