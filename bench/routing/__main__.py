"""`make bench-routing`: rules that route requests, before real workers and in simulated fleets.

    python -m bench.routing [--quick] [--only real|sim] [--rounds N] [--data DIR]

Progress goes to stderr; the last line on stdout is one JSON object.
"""

import argparse
import asyncio
from concurrent.futures import as_completed
from dataclasses import astuple, replace

from bench.command import add_data, look_at_machine, new_parser, new_pool, print_line
from bench.peers import InstallError
from bench.rounds import Json
from bench.routing import real
from bench.routing.plan import Cell, plan
from bench.routing.report import report
from bench.routing.simulate import Figures, simulate
from engine.processor import describe_processor
from loadtest.conversations import DataError
from loadtest.load import ServerError
from loadtest.processes import StartError
from loadtest.progress import say

_PARTS = ("real", "sim")
_FAILURES = (DataError, InstallError, OSError, ServerError, StartError)


def main() -> int:
    """Run the benchmark; returns the exit status."""
    parser = new_parser("routing")
    add_data(parser)
    parser.add_argument("--only", choices=_PARTS, help="one part instead of both")
    parser.add_argument("--rounds", type=int, help=f"of the part `real` ({real.FULL.rounds})")
    chosen = parser.parse_args()
    return print_line(lambda: _measure(chosen), _FAILURES)


def _measure(chosen: argparse.Namespace) -> Json:
    machine = asyncio.run(look_at_machine())
    found: Json = {"bench": "routing", "processor": describe_processor()}
    if chosen.only != "sim":
        size = real.QUICK if chosen.quick else real.FULL
        size = replace(size, rounds=chosen.rounds or size.rounds)
        found |= asyncio.run(real.measure(size, chosen.data.resolve()))
    if chosen.only != "real":
        found |= report(_simulate(quick=chosen.quick))
    return {**found, "machine": machine.as_json()}


def _simulate(*, quick: bool) -> dict[Cell, Figures]:
    cells = list(plan(quick=quick))
    found: dict[Cell, Figures] = {}
    with new_pool() as pool:
        running = {pool.submit(simulate, cell): cell for cell in cells}
        for done in as_completed(running):
            cell = running[done]
            found[cell] = done.result()
            say(f"{len(found)} of {len(cells)}: {' '.join(map(str, astuple(cell)[:4]))}")
    return {cell: found[cell] for cell in cells}


if __name__ == "__main__":
    raise SystemExit(main())
