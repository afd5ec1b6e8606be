"""`make bench-gateway`: what the gateway costs, beside other routers, in one alternating run.

    python -m bench.gateway [--quick] [--rounds N]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see `report`).
"""

import argparse
import gc
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from bench.gateway.command import print_found
from bench.gateway.figures import RoundFigures, figures_of, flaws_of
from bench.gateway.plan import FULL, QUICK, Plan
from bench.gateway.report import report
from bench.gateway.round import Target, measure_round
from bench.gateway.targets import running_targets
from bench.summary import Json
from loadtest.machine import describe_machine
from loadtest.progress import say

_BUSY_LOAD = 0.7
_LIMIT_SECONDS = 3_600.0


async def run(plan: Plan) -> Json:
    """Measure every target in every round.

    Raises:
        StartError: The fake worker or specgate did not come up.
    """
    machine = await describe_machine()
    if machine.load_before > _BUSY_LOAD:
        say(f"the machine is already busy (load {machine.load_before:.1f}): expect wide spreads")
    figures: dict[str, list[RoundFigures]] = defaultdict(list)
    first_flaws: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="specgate-bench-") as folder:
        async with running_targets(Path(folder)) as running:
            for number in range(plan.rounds):
                for target in _rotated(running.targets, number):
                    with_crowd = number < plan.crowd_rounds
                    readings = await measure_round(target, plan, with_crowd=with_crowd)
                    figures[target.name].append(figures_of(readings, plan))
                    for flaw in flaws_of(readings)[:1]:
                        first_flaws.setdefault(target.name, flaw)
                    del readings
                    gc.collect()  # outside the measured time
                    say(f"round {number + 1}/{plan.rounds}: {_headline(target, figures)}")
    found = report(figures, unavailable=running.unavailable, first_flaws=first_flaws)
    return found | {"machine": machine.as_json()}


def _rotated(targets: list[Target], number: int) -> list[Target]:
    begin = number % len(targets)
    return targets[begin:] + targets[:begin]


def _headline(target: Target, figures: dict[str, list[RoundFigures]]) -> str:
    last = figures[target.name][-1]
    unary = "none" if last.unary_p50_ms is None else f"{last.unary_p50_ms:.3f} ms"
    return f"{target.name}: unary p50 {unary}, {last.errors} errors"


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = argparse.ArgumentParser(prog="python -m bench.gateway")
    parser.add_argument("--quick", action="store_true", help="a first look within three minutes")
    parser.add_argument("--rounds", type=int, help="how often every target is measured")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    if arguments.rounds is not None:
        plan = replace(plan, rounds=max(1, arguments.rounds))
    return print_found(run(plan), limit_seconds=_LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
