"""Fill a worker's KV cache once, so that all of its memory has been touched.

The kernel gives a process its pages when they are first written. Until each block of the cache has
been used, a worker that leaks nothing grows with every prompt.
"""

import asyncio
import re
import time
from dataclasses import replace

from loadtest.load import (
    Client,
    Ending,
    MadeUpPrompts,
    Outcome,
    Server,
    ServerError,
    converse,
    load_scenario,
    make_plan,
)
from loadtest.progress import say

_PAGE = "/metrics/worker"
_SIZE = re.compile(rb'vllm:cache_config_info\{[^}]*kv_cache_size_tokens="(\d+)"')
_READ = re.compile(rb"^vllm:prompt_tokens_total(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_LIMIT_SECONDS = 900.0
_DOCUMENTS = 400


async def fill_cache(client: Client, server: Server, *, seed: int) -> None:
    """Send long texts, one after the other, until they would fill the cache once.

    Args:
        client: Client of a gateway that forwards its worker's metrics.
        server: The server to send to.
        seed: Seed of the texts.

    Raises:
        ServerError: The worker does not report its numbers, or a text was not answered.
    """
    scenario = load_scenario("long-context").with_arrivals(
        process="constant", requests_per_second=1.0, seconds=_DOCUMENTS
    )
    size, begin = await _tokens(client, _SIZE), await _tokens(client, _READ)
    say(f"filling the KV cache: {size:.0f} tokens")
    outcomes: list[Outcome] = []
    async with asyncio.timeout(_LIMIT_SECONDS):
        for arrival in make_plan(scenario, MadeUpPrompts(), seed=seed):
            short = replace(
                arrival, turns=[replace(turn, output_tokens=1) for turn in arrival.turns]
            )
            await converse(short, time.monotonic_ns(), client, server, outcomes)
            if outcomes[-1].answer.ending is not Ending.DONE:
                raise ServerError(f"a text was not answered: {outcomes[-1].answer.error}")
            if await _tokens(client, _READ) - begin >= size:
                return
    raise ServerError(f"{_DOCUMENTS} texts do not fill the KV cache")


async def _tokens(client: Client, pattern: re.Pattern[bytes]) -> float:
    _, page = await client.get(_PAGE)
    found = pattern.search(page)
    if found is None:
        raise ServerError(f"{_PAGE} does not tell {pattern.pattern.decode()}")
    return float(found[1])
