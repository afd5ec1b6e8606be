"""What people see while the gateway starts: that something goes on, then a request to paste."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

from gateway.upstream import Pool

_TERMINAL_SECONDS = 0.2
_LINE_SECONDS = 10.0
_SPINNER = "|/-\\"


def announcer(
    url: str, *, log_file: Path | None, keys: bool
) -> Callable[[Pool], Coroutine[None, None, None]]:
    """Make the background task that talks to people on stderr.

    Args:
        url: Where the gateway listens.
        log_file: Where the worker's own output goes; None: to stderr as well.
        keys: Whether callers need a key.
    """

    async def announce(pool: Pool) -> None:
        started = time.monotonic()
        if log_file is not None:
            sys.stderr.write(f"specgate: the worker's output goes to {log_file}\n")
        await _wait(pool, started)
        took = time.monotonic() - started
        sys.stderr.write(f"specgate: ready after {took:.0f} s on {url}/v1\n\n")
        sys.stderr.write(_example(url, next(iter(pool.models), "MODEL"), keys=keys))
        sys.stderr.flush()

    return announce


async def _wait(pool: Pool, started: float) -> None:
    terminal = sys.stderr.isatty()
    shown = 0.0
    turn = 0
    while not pool.is_ready:
        elapsed = time.monotonic() - started
        if terminal:
            turn += 1
            spinner = _SPINNER[turn % len(_SPINNER)]
            sys.stderr.write(f"\r{spinner} waiting for a worker, {elapsed:.0f} s ")
            sys.stderr.flush()
        elif elapsed - shown >= _LINE_SECONDS:
            shown = elapsed
            sys.stderr.write(f"specgate: waiting for a worker, {elapsed:.0f} s\n")
        await asyncio.sleep(_TERMINAL_SECONDS)
    if terminal:
        sys.stderr.write("\r\033[K")


def _example(url: str, model: str, *, keys: bool) -> str:
    body = json.dumps(
        {"model": model, "messages": [{"role": "user", "content": "Say hello."}], "stream": True}
    )
    key = " -H 'authorization: Bearer YOUR_KEY'" if keys else ""
    return (
        f"  curl -N {url}/v1/chat/completions{key} \\\n"
        f"    -H 'content-type: application/json' \\\n"
        f"    -d '{body}'\n\n"
    )
