"""`make bench-canary`: what the canary costs, how often it is wrong, and how soon it is right.

    python -m bench.canary [--quick] [--only latency,alarms,defects] [--requests N] [--rounds N]

Progress goes to stderr; the last line on stdout is one JSON object.
"""

import argparse
import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import yaml

from bench.canary import alarms, defects, latency
from bench.canary.front import CanaryError, read_counts, start_front
from bench.command import look_at_machine, new_parser, print_line
from bench.gateway.targets import fake_worker_command
from bench.rounds import Json
from bench.suffix.corpus import CONFIG
from engine.processor import describe_processor
from loadtest.processes import StartError, free_port, start_child
from loadtest.service import ServiceError, start_worker

_PARTS = ("latency", "alarms", "defects")
_STOP_SECONDS = 30.0
_FAILURES = (StartError, ServiceError, CanaryError, OSError, TimeoutError)
_CASES = (defects.Case(share=1.0, one_in=1_000), defects.Case(share=0.1, one_in=100))
_QUICK_CASES = (defects.Case(share=1.0, one_in=50), defects.Case(share=0.1, one_in=5))


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = new_parser("canary")
    parser.add_argument("--only", type=_parts, default=_PARTS, help="parts, separated by commas")
    parser.add_argument("--requests", type=int, help="of the part `alarms` (10,000)")
    parser.add_argument("--rounds", type=int, help="of the part `latency` (20)")
    chosen = parser.parse_args()
    return print_line(lambda: asyncio.run(_run(chosen)), _FAILURES)


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    if unknown := {*parts} - {*_PARTS}:
        raise argparse.ArgumentTypeError(f"no part {', '.join(sorted(unknown))}")
    return parts


async def _run(chosen: argparse.Namespace) -> Json:
    machine = await look_at_machine()
    found: Json = {"bench": "canary"}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-canary-")))
        if {"latency", "alarms"} & {*chosen.only}:
            found |= await _on_a_model(stack, folder, chosen)
    if "defects" in chosen.only:
        found["defects"] = await _on_a_script(quick=chosen.quick)
    return {**found, "processor": describe_processor(), "machine": machine.as_json()}


async def _on_a_model(stack: AsyncExitStack, folder: Path, chosen: argparse.Namespace) -> Json:
    """Run the parts that need a real worker."""
    engine: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["engine"]
    engine["speculation"] |= {"suffix": {"warm_start": False}}
    model, port = engine["model"], free_port()
    await start_worker(stack, folder, engine, port=port, stop_seconds=_STOP_SECONDS)
    found: Json = {}
    if "latency" in chosen.only:
        ports = {
            name: (await start_front(stack, port, settings)).port
            for name, settings in latency.SETTINGS.items()
        }
        rounds = chosen.rounds or (2 if chosen.quick else 20)
        measured = await latency.measure(ports, port, model, rounds=rounds)
        counts = {name: await read_counts(ports[name]) for name in ports}
        found["latency"] = latency.report(measured, counts)
    if "alarms" in chosen.only:
        front = await start_front(stack, port, alarms.SETTINGS)
        requests = chosen.requests or (48 if chosen.quick else 10_000)
        found["alarms"] = alarms.report(await alarms.measure(front.port, model, requests=requests))
    return found


async def _on_a_script(*, quick: bool) -> list[Json]:
    """Run the part that needs a worker with defects."""
    most = 12 if quick else 40
    found = []
    for case in _QUICK_CASES if quick else _CASES:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-canary-")))
            port = free_port()
            await start_child(stack, fake_worker_command(port), folder)
            settings = {"share": case.share, "most_time": 1.0}
            front = await start_front(stack, port, settings)
            measured = await defects.measure(front, case, alarms=most)
            found.append(defects.report(case, measured, alarms=most))
    return found


if __name__ == "__main__":
    sys.exit(main())
