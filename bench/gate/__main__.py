"""`make bench-gate`: what the gate is worth on a real worker.

    python -m bench.gate [--quick] [--batch 1,2,4,8,16,32] [--data DIR] [--config FILE]
        [--plot FILE.svg]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import argparse
import asyncio
import json
import signal
import sys
import time
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from bench.engine.plan import FULL as ENGINE_PLAN
from bench.engine.records import Pools, load_pools
from bench.engine.worker import WorkerError
from bench.gate.measure import Figures, measure
from bench.gate.plan import FULL, MOST_CLIENTS, QUICK, Plan
from bench.gate.plot import draw
from bench.gate.report import report, speeds_of
from bench.gate.settings import seated
from bench.suffix.corpus import CONFIG, DATA
from bench.suffix.replay import Json
from bench.suffix.report import rounded
from engine.config import EngineSettings, load_settings
from engine.errors import EngineError
from engine.models import fetch_with_pip, resolve_model
from engine.worker.versions import find_version
from loadtest.conversations import DataError
from loadtest.machine import describe_machine
from loadtest.progress import say

_BUSY_LOAD = 0.7


def main() -> int:
    """Run the benchmark and print its JSON line."""
    # As Ctrl-C, so that the workers are stopped; killed outright it takes them along.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(prog="python -m bench.gate")
    parser.add_argument("--quick", action="store_true", help="a first look within three minutes")
    parser.add_argument("--batch", type=_clients, help="clients at once: 1,4,16")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--config", type=Path, default=CONFIG, help="the profile")
    parser.add_argument("--plot", type=Path, help="where to draw goodput against concurrency")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    if arguments.batch:
        plan = replace(plan, clients=arguments.batch)
    try:
        profile = seated(load_settings(arguments.config))
        pools = load_pools(arguments.data.resolve(), ENGINE_PLAN)
        found, figures = asyncio.run(_run(plan, profile, pools))
        if arguments.plot and figures.tallies:
            draw(arguments.plot, speeds_of(figures))
    except (DataError, EngineError, OSError, WorkerError) as error:
        say(f"failed: {error}")
        return 1
    sys.stdout.write(json.dumps(rounded({**found, "profile": arguments.config.name})) + "\n")
    return 0


async def _run(plan: Plan, profile: EngineSettings, pools: Pools) -> tuple[Json, Figures]:
    ends_at = time.monotonic() + plan.seconds
    machine = await describe_machine()
    if machine.load_before > _BUSY_LOAD:
        say(f"the machine is already busy (load {machine.load_before:.1f}): expect wide spreads")
    model = resolve_model(profile, fetch=fetch_with_pip, report=say)
    figures = await measure(plan, profile, model, pools, ends_at)
    found = {
        **report(figures),
        "model": profile.model,
        "rounds": plan.rounds,
        "versions": {"vllm": find_version(), "torch": metadata.version("torch")},
        "machine": machine.as_json(),
    }
    return found, figures


def _clients(text: str) -> list[int]:
    counts = [int(part) for part in text.split(",")]
    if not all(1 <= count <= MOST_CLIENTS for count in counts):
        raise argparse.ArgumentTypeError(f"1 to {MOST_CLIENTS} clients")
    return counts


if __name__ == "__main__":
    sys.exit(main())
