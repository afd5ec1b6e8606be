"""`make bench-gate-sim`: the gate against fixed rules, other engines' rules and an oracle.

    python -m bench.gate_sim [--quick] [--data DIR]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import asyncio
import sys
from pathlib import Path

from bench.command import add_data, look_at_machine, new_parser, print_line
from bench.gate_sim.bench import go_through
from bench.gate_sim.curve import CurveError
from bench.gate_sim.plan import FULL, QUICK, Plan
from bench.gate_sim.report import report
from bench.gate_sim.specgate import Specgate
from bench.gate_sim.traces import Trace, read_traces
from bench.rounds import Json
from loadtest.conversations import DataError
from loadtest.progress import say


def main() -> int:
    """Run the simulator and print its JSON line."""
    parser = new_parser("gate_sim")
    add_data(parser)
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    return print_line(lambda: _measure(plan, arguments.data.resolve()), (CurveError, DataError))


def _measure(plan: Plan, data: Path) -> Json:
    machine = asyncio.run(look_at_machine())
    needed = any(not traffic.phases for traffic in plan.traffics)
    traces = _read(data) if needed else []
    found = report(go_through(plan, traces, Specgate, say))
    answers = {"recorded_answers": len(traces), "seeds": plan.seeds}
    return {**found, **answers, "machine": machine.as_json()}


def _read(folder: Path) -> list[Trace]:
    """The recordings, or none where the folder is not there; one that cannot be read is an error.

    Raises:
        DataError: The folder holds none, or one is not in a known format.
    """
    if not folder.is_dir():
        say(f"{folder}: not there; recorded traffic is left out")
        return []
    return read_traces(folder)


if __name__ == "__main__":
    sys.exit(main())
