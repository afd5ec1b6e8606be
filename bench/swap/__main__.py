"""`make bench-swap`: steps while heads are loaded and tried, beside quiet time.

    python -m bench.swap [--quick]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import asyncio
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import yaml

from bench.command import look_at_machine, new_parser, print_line
from bench.rounds import Json
from bench.suffix.corpus import CONFIG
from bench.swap.measure import SwapError, measure
from bench.swap.report import report
from engine.models import shipped_head
from engine.processor import describe_processor
from loadtest.processes import StartError, free_port
from loadtest.service import start_gateway

_STOP_SECONDS = 30.0


def main() -> int:
    """Run the benchmark and print its JSON line."""
    arguments = new_parser("swap").parse_args()
    rounds, seconds = (2, 12.0) if arguments.quick else (5, 30.0)
    return print_line(
        lambda: asyncio.run(_run(rounds, seconds)), (StartError, SwapError, httpx.HTTPError)
    )


async def _run(rounds: int, seconds: float) -> Json:
    machine = await look_at_machine()
    profile = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    profile["gateway"] |= {"port": free_port(), "pacing": {"mode": "off"}}
    model = profile["engine"]["model"]
    shipped = shipped_head(model)
    if shipped is None:
        raise SwapError(f"no head ships for {model}")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-swap-")))
        head = folder / "head"
        shutil.copytree(shipped, head)
        gateway = await start_gateway(stack, folder, profile, stop_seconds=_STOP_SECONDS)
        figures = await asyncio.to_thread(
            measure, gateway.url, model, head, rounds=rounds, seconds=seconds
        )
    return {
        **report(figures.gaps, figures.tokens, figures.load_seconds),
        "processor": describe_processor(),
        "machine": machine.as_json(),
    }


if __name__ == "__main__":
    sys.exit(main())
