"""A gateway process that also measures how long a callback keeps its event loop busy.

    python -m bench.fuzz.gateway --config FILE --blocks FILE

It serves what `specgate serve` serves. A timer on the same loop is due every few milliseconds; how
late it runs is how long the loop was blocked. Other processes also make it late, so a block counts
at most the CPU time that the loop's thread used meanwhile.
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import TextIO

import uvloop

from gateway.app import create_app
from gateway.assembly import Lifecycle
from gateway.server import bind, serve
from gateway.settings import load_settings
from gateway.telemetry import configure_logging

_TICK_SECONDS = 0.005
_WRITTEN_SECONDS = 0.005
"""Shorter blocks are not written."""


class LoopProbe:
    """Writes a line for every block: when it ended (CLOCK_MONOTONIC, seconds) and milliseconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, out: TextIO) -> None:
        self._loop = loop
        self._out = out
        self._arm()

    def _arm(self) -> None:
        self._cpu_seconds = time.thread_time()
        self._due_seconds = time.monotonic() + _TICK_SECONDS
        self._loop.call_later(_TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        now_seconds = time.monotonic()
        used_seconds = time.thread_time() - self._cpu_seconds
        block_seconds = min(now_seconds - self._due_seconds, used_seconds)
        if block_seconds > _WRITTEN_SECONDS:
            self._out.write(f"{now_seconds:.4f} {block_seconds * 1e3:.2f}\n")
            self._out.flush()
        self._arm()


async def _run(profile: Path, blocks: Path) -> int:
    settings = load_settings(profile)
    configure_logging(log_format=settings.log.format, level=settings.log.level)
    lifecycle = Lifecycle()
    app = create_app(settings, lifecycle=lifecycle)
    with blocks.open("w", encoding="utf-8") as out:
        LoopProbe(asyncio.get_running_loop(), out)
        return await serve(app, bind(settings.host, settings.port), lifecycle, settings.drain)


def main() -> int:
    """Serve until a signal."""
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz.gateway")
    parser.add_argument("--config", type=Path, required=True, help="profile (YAML)")
    parser.add_argument("--blocks", type=Path, required=True, help="file that takes the blocks")
    chosen = parser.parse_args()
    return uvloop.run(_run(chosen.config, chosen.blocks))


if __name__ == "__main__":
    sys.exit(main())
