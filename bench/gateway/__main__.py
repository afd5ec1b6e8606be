"""`make bench-gateway`: the cost of the gateway and of other routers, in one alternating run.

    python -m bench.gateway [--quick] [--rounds N]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see `report`).
"""

import gc
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from bench.command import look_at_machine, new_parser
from bench.gateway.command import run_and_print
from bench.gateway.figures import RoundFigures, figures_of, flaws_of
from bench.gateway.plan import FULL, QUICK, Plan
from bench.gateway.report import report
from bench.gateway.round import Target, measure_round
from bench.gateway.targets import running_targets
from bench.rounds import Json, rotated
from loadtest.progress import say

_LIMIT_SECONDS = 3_600.0


async def run(plan: Plan) -> Json:
    """Measure every target in every round.

    Raises:
        StartError: The fake worker or specgate did not come up.
    """
    machine = await look_at_machine()
    figures: dict[str, list[RoundFigures]] = defaultdict(list)
    first_flaws: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="specgate-bench-") as folder:
        async with running_targets(Path(folder)) as running:
            for number in range(plan.rounds):
                for target in rotated(running.targets, number):
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


def _headline(target: Target, figures: dict[str, list[RoundFigures]]) -> str:
    last = figures[target.name][-1]
    unary = "none" if last.unary_p50_ms is None else f"{last.unary_p50_ms:.3f} ms"
    return f"{target.name}: unary p50 {unary}, {last.errors} errors"


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = new_parser("gateway")
    parser.add_argument("--rounds", type=int, help="how often every target is measured")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    if arguments.rounds is not None:
        plan = replace(plan, rounds=max(1, arguments.rounds))
    return run_and_print(lambda: run(plan), limit_seconds=_LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
