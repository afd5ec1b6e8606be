"""`make bench-trace`: speed and CPU time of streams with a trace, beside the same without.

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
from loadtest.service import ServiceError, start_gateway

_STOP_SECONDS = 30.0
_CLIENTS = (1, 8)
_FAILURES = (StartError, ServiceError, TraceError, OSError)


def main() -> int:
    """Run the benchmark and print its JSON line."""
    rounds = 12 if new_parser("trace").parse_args().quick else 48
    return print_line(lambda: asyncio.run(_run(rounds)), _FAILURES)


async def _run(rounds: int) -> Json:
    machine = await look_at_machine()
    profile = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    profile["gateway"] |= {"port": free_port()}
    model = profile["engine"]["model"]
    found: Json = {}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-trace-")))
        gateway = await start_gateway(stack, folder, profile, stop_seconds=_STOP_SECONDS)
        processes = await gateway.processes()
        engine = processes.engine_core
        above = [processes.gateway, *processes.gateway.children(recursive=True)]
        serving = [one for one in above if one not in (engine, *engine.children(recursive=True))]
        for clients in _CLIENTS:
            found[f"{clients}_clients"] = report(
                await measure(
                    gateway.port,
                    model,
                    serving=serving,
                    engine=engine,
                    clients=clients,
                    rounds=rounds,
                )
            )
    return {**found, "processor": describe_processor(), "machine": machine.as_json()}


if __name__ == "__main__":
    sys.exit(main())
