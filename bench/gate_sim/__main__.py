"""`make bench-gate-sim`: the gate against fixed rules, other engines' rules and an oracle.

    python -m bench.gate_sim [--quick] [--data DIR] [--cells NAMES] [--seeds N]
                             [--dump FILE] [--against FILE]

`--cells` runs some cells of the plan: names or patterns, with commas between them, such as
`gpu-8b/chat/4,*-captured/*/16`. `--dump` writes the speeds of every rule in every cell to a file;
`--against` compares the rule under test with such a file, of the same plan and seeds. `--launches`
simulates the choice to launch steps ahead instead (launching.py). Progress goes to stderr; the last
line on stdout is one JSON object (keys: see report.py).
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.command import add_data, look_at_machine, new_parser, print_line
from bench.gate_sim import launching
from bench.gate_sim.bench import Cell, cells_of, go_through, matching
from bench.gate_sim.dump import compared, dumped
from bench.gate_sim.launching import compare_launches
from bench.gate_sim.plan import FULL, QUICK, PlanError
from bench.gate_sim.report import report
from bench.gate_sim.traces import Trace, read_traces
from bench.rounds import Json
from engine.simulation.curve import CurveError
from engine.simulation.specgate import Specgate
from loadtest.conversations import DataError
from loadtest.progress import say


def main() -> int:
    """Run the simulator and print its JSON line."""
    parser = new_parser("gate_sim")
    add_data(parser)
    parser.add_argument("--cells", default="*", help="names or patterns, commas between them")
    parser.add_argument("--seeds", type=int, help="of every cell")
    parser.add_argument("--dump", type=Path, help="file to write the speeds of every cell to")
    parser.add_argument("--against", type=Path, help="earlier such file to compare with")
    parser.add_argument("--launches", action="store_true", help="async scheduling, nothing else")
    arguments = parser.parse_args()
    return print_line(lambda: _measure(arguments), (CurveError, DataError, PlanError, OSError))


def _measure(arguments: argparse.Namespace) -> Json:
    if arguments.launches:
        launches = compare_launches(launching.QUICK if arguments.quick else launching.FULL, say)
        return {**launches, "machine": asyncio.run(look_at_machine()).as_json()}
    plan = QUICK if arguments.quick else FULL
    if arguments.seeds:
        plan = replace(plan, seeds=arguments.seeds, shift_seeds=arguments.seeds)
    cells = matching(cells_of(plan), arguments.cells.split(","))
    machine = asyncio.run(look_at_machine())
    traces = _read(cells, arguments.data.resolve())
    findings = go_through(cells, traces, Specgate, say)
    found = report(findings)
    if arguments.dump:
        arguments.dump.write_text(json.dumps(dumped(findings)), encoding="utf-8")
    if arguments.against:
        before = json.loads(arguments.against.read_text(encoding="utf-8"))
        found = {"against": compared(before, dumped(findings)), **found}
    answers = {"recorded_answers": len(traces), "seeds": plan.seeds}
    return {**found, **answers, "machine": machine.as_json()}


def _read(cells: Sequence[Cell], folder: Path) -> list[Trace]:
    """The recordings, or none where nothing needs them or the folder is not there.

    Raises:
        DataError: The folder holds none, or one is not in a known format.
    """
    if all(cell.traffic.phases for cell in cells):
        return []
    if not folder.is_dir():
        say(f"{folder}: not there; recorded traffic is left out")
        return []
    return read_traces(folder)


if __name__ == "__main__":
    sys.exit(main())
