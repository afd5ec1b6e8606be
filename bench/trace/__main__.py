"""`make bench-trace`: tokens per second of streams with a trace, beside the same without.

    python -m bench.trace [--quick]

Progress goes to stderr; the last line on stdout is one JSON object.
"""

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import yaml

from bench.command import look_at_machine, new_parser, print_line
from bench.rounds import Json
from bench.suffix.corpus import CONFIG
from bench.trace.measure import TraceError, measure, report
from engine.processor import describe_processor
from loadtest.processes import StartError, free_port
from loadtest.service import start_gateway

_STOP_SECONDS = 30.0
_CLIENTS = (1, 8)


def main() -> int:
    """Run the benchmark and print its JSON line."""
    rounds = 4 if new_parser("trace").parse_args().quick else 16
    return print_line(lambda: asyncio.run(_run(rounds)), (StartError, TraceError, OSError))


async def _run(rounds: int) -> Json:
    machine = await look_at_machine()
    profile = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    profile["gateway"] |= {"port": free_port()}
    model = profile["engine"]["model"]
    found: Json = {}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-trace-")))
        gateway = await start_gateway(stack, folder, profile, stop_seconds=_STOP_SECONDS)
        for clients in _CLIENTS:
            rounds_found = await measure(gateway.port, model, clients=clients, rounds=rounds)
            found[f"{clients}_clients"] = report(rounds_found)
    return {**found, "processor": describe_processor(), "machine": machine.as_json()}


if __name__ == "__main__":
    sys.exit(main())
