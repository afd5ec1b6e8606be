"""`make bench-gate-sim`: the gate against fixed rules, other engines' rules and an oracle.

    python -m bench.gate_sim [--quick] [--data DIR]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from bench.gate_sim.bench import go_through
from bench.gate_sim.curve import CurveError
from bench.gate_sim.plan import FULL, QUICK
from bench.gate_sim.report import report, rounded
from bench.gate_sim.specgate import Specgate
from bench.gate_sim.traces import Trace, read_traces
from loadtest.conversations import DataError
from loadtest.machine import describe_machine
from loadtest.progress import say

DATA = Path(__file__).parents[2] / "../shared/data"


def main() -> int:
    """Run the simulator and print its JSON line."""
    parser = argparse.ArgumentParser(prog="python -m bench.gate_sim")
    parser.add_argument("--quick", action="store_true", help="a first look within half a minute")
    parser.add_argument("--data", type=Path, default=DATA, help="recorded conversations")
    arguments = parser.parse_args()
    machine = asyncio.run(describe_machine())
    plan = QUICK if arguments.quick else FULL
    try:
        needed = any(not traffic.phases for traffic in plan.traffics)
        traces = _read(arguments.data.resolve()) if needed else []
        found = report(go_through(plan, traces, Specgate, say))
    except (CurveError, DataError) as error:
        say(f"failed: {error}")
        return 1
    answers = {"recorded_answers": len(traces), "seeds": plan.seeds}
    line = rounded({**found, **answers, "machine": machine.as_json()})
    sys.stdout.write(json.dumps(line) + "\n")
    return 0


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
