"""The whole step through HTTP: gateway and worker of the default profile, without drafts."""

import statistics
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import yaml

from bench.suffix.corpus import CONFIG
from loadtest.processes import free_port
from loadtest.service import start_gateway

_ANSWER_TOKENS = 48
_ANSWER_SECONDS = 300.0
_STOP_SECONDS = 30.0
_PROMPT = "Count from {first} to 300. " + "Go on, and on, " * 50
"""Some 300 tokens, with a long answer."""


class ServiceError(Exception):
    """Answers were too short to measure a step."""


class Service:
    """A service that is asked by some clients at once, each time with the same prompts.

    After the first time the prompts are in the prefix cache, so that all answers begin together.

    Args:
        url: Of the gateway.
        model: What it calls its model.
    """

    def __init__(self, url: str, model: str) -> None:
        self._url = url
        self._model = model

    def step_seconds(self, requests: int) -> float:
        """Return the time of a step that gives a token to each of so many requests.

        It is the median over the requests of the time between two of their tokens, while all of
        them get tokens.

        Raises:
            httpx.HTTPError: A request failed.
            ServiceError: An answer ended before all of them had begun.
        """
        # One client: making one takes so long beside a busy worker that answers end meanwhile.
        limits = httpx.Limits(max_connections=requests)
        with (
            httpx.Client(timeout=_ANSWER_SECONDS, limits=limits) as client,
            ThreadPoolExecutor(requests) as threads,
        ):
            ask = partial(self._token_times, client)
            return seconds_a_step(list(threads.map(ask, range(requests))))

    def _token_times(self, client: httpx.Client, number: int) -> list[float]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "user", "content": _PROMPT.format(first=number + 1)}],
            "max_tokens": _ANSWER_TOKENS,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
        }
        url = f"{self._url}/v1/chat/completions"
        with client.stream("POST", url, json=body) as response:
            response.raise_for_status()
            return [time.perf_counter() for line in response.iter_lines() if '"content"' in line]


def seconds_a_step(times: Sequence[Sequence[float]]) -> float:
    """Return the median over some streams of the time between two of their tokens.

    Only the time counts in which all streams get tokens.

    Args:
        times: By stream, when each token came.

    Raises:
        ServiceError: There is no such time.
    """
    begin = max(stream[0] for stream in times)
    end = min(stream[-1] for stream in times)
    within = [[at for at in stream if begin <= at <= end] for stream in times]
    if min(map(len, within)) < 2:
        raise ServiceError("answers are too short to measure a step")
    return statistics.median((some[-1] - some[0]) / (len(some) - 1) for some in within)


@asynccontextmanager
async def running_service(folder: Path) -> AsyncIterator[Service]:
    """Start the default profile with neither drafts nor pacing.

    Args:
        folder: Takes its profile and its log.

    Raises:
        StartError: It did not come up.
    """
    profile = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    profile["gateway"] |= {"port": free_port(), "pacing": {"mode": "off"}}
    profile["engine"]["speculation"] = {"sources": []}
    async with AsyncExitStack() as stack:
        gateway = await start_gateway(stack, folder, profile, stop_seconds=_STOP_SECONDS)
        yield Service(gateway.url, profile["engine"]["model"])
