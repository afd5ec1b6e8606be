"""Asks workers the prompts of a plan, and keeps the answers."""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import groupby
from typing import Protocol

import httpx

from bench.engine.counts import fallbacks
from bench.engine.worker import WorkerError
from bench.exact.answers import Answer, answer_of, body_of
from bench.exact.plan import MODES, Pass, Plan, Serving, chosen
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


Start = Callable[[Serving], AbstractAsyncContextManager[Server]]


async def ask_plan(
    plan: Plan, prompts: Sequence[Prompt], records: Records, start: Start
) -> dict[str, str]:
    """Ask all that has no answer yet, with one worker after another.

    Args:
        plan: What is asked.
        prompts: Of all kinds.
        records: Take the answers.
        start: Starts a worker, and stops it at the end.

    Returns:
        Workers that failed, and why; the others were asked all the same.
    """
    ends_at = time.monotonic() + plan.seconds
    failed: dict[str, str] = {}
    for serving, passes in groupby(plan.passes, key=lambda one: one.serving):
        missing = [
            (one, asked)
            for one in passes
            if (asked := records.missing(one, chosen(prompts, one.every)))
        ]
        if not missing or time.monotonic() > ends_at:
            continue
        say(f"{serving.name} starts")
        try:
            async with start(serving) as worker:
                for one, asked in missing:
                    if time.monotonic() <= ends_at:
                        await ask_all(worker, one, asked, records)
        except WorkerError as error:
            failed[serving.name] = str(error)
            say(f"{serving.name} failed: {error}")
    return failed


async def ask_all(worker: Server, one: Pass, prompts: Sequence[Prompt], records: Records) -> None:
    """Ask the prompts of a pass, as many at once as it has clients.

    Raises:
        WorkerError: An answer is not one, or speculation failed, so that nothing was compared.
    """
    records.mend(one)
    waiting = deque(prompts)
    began = time.monotonic()

    async def client() -> None:
        while waiting:
            prompt = waiting.popleft()
            records.add(one, prompt, await _ask(worker, one, prompt))
            if (done := len(prompts) - len(waiting)) % _EVERY == 0:
                say(f"{one.name}: {done} of {len(prompts)} prompts")

    clients = [asyncio.create_task(client()) for _ in range(one.clients)]
    try:
        await asyncio.gather(*clients)
    finally:
        for each in clients:
            each.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    say(f"{one.name}: {len(prompts)} prompts in {time.monotonic() - began:.0f} s")
    if failures := fallbacks(await worker.metrics()):
        raise WorkerError(f"{one.name}: speculation failed {failures} times")


async def _ask(worker: Server, one: Pass, prompt: Prompt) -> Sequence[Answer]:
    """Ask twice, so that the prefix cache misses and then hits; the reference is asked once."""
    salt = secrets.token_hex(8)
    body = body_of(prompt, worker.model, salt=salt, is_reference=one.is_reference) | _wishes(one)
    found = []
    for _ in range(1 if one.is_reference else 2):
        response = await worker.send("POST", "/v1/chat/completions", body)
        try:
            found.append(answer_of(response, is_streamed=prompt.is_streamed))
        except (ValueError, KeyError, TypeError) as error:
            where = f"{one.name}: {prompt.kind}, prompt {prompt.number}"
            raise WorkerError(f"{where}: {error!r}") from error
    return found


def _wishes(one: Pass) -> Json:
    """What a specgate is told with each request; the index of a pass begins empty."""
    if one.serving.drafter != "specgate":
        return {}
    wishes = {"specgate_mode": MODES[one.source], "specgate_tenant": one.name, "specgate_trace": 1}
    return {"vllm_xargs": wishes}
