"""`make bench-engine`: what speculation brings, method by method, in one alternating run.

    python -m bench.engine [--quick] [--batch 1,4,16] [--model NAME] [--data DIR]
        [--config FILE] [--methods none,hybrid,...] [--plot FILE.svg]

A model that a profile in configs/ is made for is measured with that one.

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from bench.engine.measure import BatchFigures, Bench, measure
from bench.engine.methods import UNASKED, Method, methods_of, profile_of, same_workers
from bench.engine.plan import FULL, KV_GIB, QUICK, SEED, Plan
from bench.engine.plot import draw, plot_title
from bench.engine.records import Pools, load_pools
from bench.engine.report import report
from bench.engine.worker import WorkerError
from bench.peers import InstallError, install
from bench.suffix.corpus import DATA
from bench.suffix.plan import ARCTIC_REQUIREMENTS
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
_SOURCES = frozenset({"head", "native", "suffix"})


def main() -> int:
    """Run the benchmark and print its JSON line."""
    # As Ctrl-C, so that the workers are stopped; killed outright it takes them along.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(prog="python -m bench.engine")
    parser.add_argument("--quick", action="store_true", help="a first look within three minutes")
    parser.add_argument("--batch", type=_counts, default=[1], help="clients at once: 1,4,16")
    parser.add_argument("--model", help="another model than the profile's")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--config", type=Path, help="the profile; by default that of the model")
    parser.add_argument("--methods", help="only these, with commas")
    parser.add_argument("--plot", type=Path, help="where to draw the speeds relative to vLLM")
    arguments = parser.parse_args()
    overrides = {"model": arguments.model} if arguments.model else {}
    config = arguments.config or profile_of(arguments.model)
    try:
        settings = load_settings(config, overrides=overrides)
        methods = _chosen(methods_of(settings), arguments.methods)
        plan = QUICK if arguments.quick else FULL
        pools = load_pools(arguments.data.resolve(), plan)
        found, figures = asyncio.run(_run(plan, settings, methods, arguments.batch, pools))
        if arguments.plot:
            draw(arguments.plot, figures[arguments.batch[0]].tallies, plot_title(found))
    except (DataError, EngineError, InstallError, OSError, WorkerError) as error:
        say(f"failed: {error}")
        return 1
    sys.stdout.write(json.dumps(rounded({**found, "profile": config.name})) + "\n")
    return 0


async def _run(
    plan: Plan,
    settings: EngineSettings,
    methods: Sequence[Method],
    batches: Sequence[int],
    pools: Pools,
) -> tuple[Json, Mapping[int, BatchFigures]]:
    ends_at = time.monotonic() + plan.seconds
    machine = await describe_machine()
    if machine.load_before > _BUSY_LOAD:
        say(f"the machine is already busy (load {machine.load_before:.1f}): expect wide spreads")
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
        "model": settings.model,
        "rounds": plan.rounds,
        "seed": SEED,
        "kv_gib": KV_GIB,
        "versions": {"vllm": find_version(), "torch": metadata.version("torch")},
        "machine": machine.as_json(),
    }
    return found, figures


def _chosen(methods: Sequence[Method], names: str | None) -> Sequence[Method]:
    known = [method.name for method in methods]
    wanted = names.split(",") if names else [name for name in known if name not in UNASKED]
    if unknown := set(wanted) - set(known):
        raise DataError(f"no such method: {', '.join(unknown)}; there are {', '.join(known)}")
    return [method for method in methods if method.name in wanted]


def _counts(text: str) -> list[int]:
    counts = [int(part) for part in text.split(",")]
    if min(counts) < 1:
        raise argparse.ArgumentTypeError("every batch is at least 1")
    return counts


if __name__ == "__main__":
    sys.exit(main())
