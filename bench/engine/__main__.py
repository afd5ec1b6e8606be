"""`make bench-engine`: the gain of each method of speculation, in one alternating run.

    python -m bench.engine [--quick] [--batch 1,4,16] [--model NAME] [--data DIR]
        [--config FILE] [--methods none,hybrid,...] [--plot FILE.svg]

The default profile is the one in configs/ that is made for the model.

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.command import add_data, client_counts, look_at_machine, new_parser, print_line
from bench.engine.facts import facts_of
from bench.engine.measure import BatchFigures, Bench, measure
from bench.engine.methods import UNASKED, Method, methods_of, profile_of, same_workers
from bench.engine.plan import FULL, QUICK, SEED, Plan
from bench.engine.plot import draw, plot_title
from bench.engine.records import Pools, load_pools
from bench.engine.report import report
from bench.engine.worker import WorkerError
from bench.peers import InstallError, install
from bench.rounds import Json
from bench.suffix.plan import ARCTIC_REQUIREMENTS
from engine.config import EngineSettings, load_settings
from engine.errors import EngineError
from engine.models import fetch_with_pip, resolve_model
from loadtest.conversations import DataError
from loadtest.progress import say

_SOURCES = frozenset({"head", "native", "suffix"})


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = new_parser("engine")
    add_data(parser)
    parser.add_argument("--batch", type=client_counts, default=[1], help="clients at once: 1,4,16")
    parser.add_argument("--model", help="another model than the profile's")
    parser.add_argument("--config", type=Path, help="the profile; by default that of the model")
    parser.add_argument("--methods", help="only these, with commas")
    parser.add_argument("--plot", type=Path, help="where to draw the speeds relative to vLLM")
    arguments = parser.parse_args()
    return print_line(
        lambda: _measure(arguments), (DataError, EngineError, InstallError, OSError, WorkerError)
    )


def _measure(arguments: argparse.Namespace) -> Json:
    overrides = {"model": arguments.model} if arguments.model else {}
    config = arguments.config or profile_of(arguments.model)
    settings = load_settings(config, overrides=overrides)
    methods = _chosen(methods_of(settings), arguments.methods)
    plan = QUICK if arguments.quick else FULL
    pools = load_pools(arguments.data.resolve(), plan)
    found, figures = asyncio.run(_run(plan, settings, methods, arguments.batch, pools))
    if arguments.plot:
        draw(arguments.plot, figures[arguments.batch[0]].counts, plot_title(found))
    return {**found, "profile": config.name}


async def _run(
    plan: Plan,
    settings: EngineSettings,
    methods: Sequence[Method],
    batches: Sequence[int],
    pools: Pools,
) -> tuple[Json, Mapping[int, BatchFigures]]:
    ends_at = time.monotonic() + plan.seconds
    machine = await look_at_machine()
    model = resolve_model(settings, fetch=fetch_with_pip, report=say)
    say("installing the peer where it is missing")
    peer = await install("arctic", ARCTIC_REQUIREMENTS)
    packages = next(peer.glob("lib/python*/site-packages"))
    same = same_workers(methods)
    started = [method for method in methods if method.name not in same]
    bench = Bench(plan, started, settings, model, packages, pools, ends_at)
    figures = {batch: await measure(bench, batch) for batch in batches}
    found = {
        **report(figures, same),
        "methods": {method.name: method.as_json() for method in methods},
        "not_measured": sorted(_SOURCES - {method.name for method in methods}),
        "rounds": plan.rounds,
        "seed": SEED,
        **facts_of(settings, machine),
    }
    return found, figures


def _chosen(methods: Sequence[Method], names: str | None) -> Sequence[Method]:
    known = [method.name for method in methods]
    wanted = names.split(",") if names else [name for name in known if name not in UNASKED]
    if unknown := set(wanted) - set(known):
        raise DataError(f"no such method: {', '.join(unknown)}; there are {', '.join(known)}")
    return [method for method in methods if method.name in wanted]


if __name__ == "__main__":
    sys.exit(main())
