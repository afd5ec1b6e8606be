"""`make bench-gate`: the gain of the gate on a real worker.

    python -m bench.gate [--quick] [--batch 1,2,4,8,16,32] [--data DIR] [--config FILE]
        [--plot FILE.svg]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import argparse
import asyncio
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.command import add_data, client_counts, look_at_machine, new_parser, print_line
from bench.engine.facts import facts_of
from bench.engine.plan import FULL as ENGINE_PLAN
from bench.engine.records import Pools, load_pools
from bench.engine.worker import WorkerError
from bench.gate.measure import Figures, measure
from bench.gate.plan import FULL, MOST_CLIENTS, QUICK, Plan
from bench.gate.plot import draw
from bench.gate.report import report, speeds_of
from bench.gate.settings import seated
from bench.rounds import Json
from bench.suffix.corpus import CONFIG
from engine.config import EngineSettings, load_settings
from engine.errors import EngineError
from engine.models import fetch_with_pip, resolve_model
from loadtest.conversations import DataError
from loadtest.progress import say


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = new_parser("gate")
    add_data(parser)
    counts = partial(client_counts, most=MOST_CLIENTS)
    parser.add_argument("--batch", type=counts, help="clients at once: 1,4,16")
    parser.add_argument("--config", type=Path, default=CONFIG, help="the profile")
    parser.add_argument("--plot", type=Path, help="where to draw goodput against concurrency")
    arguments = parser.parse_args()
    return print_line(lambda: _measure(arguments), (DataError, EngineError, OSError, WorkerError))


def _measure(arguments: argparse.Namespace) -> Json:
    plan = QUICK if arguments.quick else FULL
    if arguments.batch:
        plan = replace(plan, clients=arguments.batch)
    profile = seated(load_settings(arguments.config))
    pools = load_pools(arguments.data.resolve(), ENGINE_PLAN)
    found, figures = asyncio.run(_run(plan, profile, pools))
    if arguments.plot and figures.counts:
        draw(arguments.plot, speeds_of(figures))
    return {**found, "profile": arguments.config.name}


async def _run(plan: Plan, profile: EngineSettings, pools: Pools) -> tuple[Json, Figures]:
    ends_at = time.monotonic() + plan.seconds
    machine = await look_at_machine()
    model = resolve_model(profile, fetch=fetch_with_pip, report=say)
    figures = await measure(plan, profile, model, pools, ends_at)
    found = {**report(figures), "rounds": plan.rounds, **facts_of(profile, machine)}
    return found, figures


if __name__ == "__main__":
    sys.exit(main())
