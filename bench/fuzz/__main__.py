"""`make fuzz`: hostile clients, hostile workers and floods against a real gateway.

    python -m bench.fuzz [--quick] [--seed N] [--only TAG]

Progress and findings go to stderr; the last line on stdout is one JSON object (keys: see `report`).
`--only` plays the one case that a finding names. The exit status is 0 if nothing was found.
"""

import asyncio
import sys

import uvloop

from bench.command import look_at_machine, new_parser, print_line
from bench.fuzz.plan import FULL, QUICK
from bench.fuzz.report import is_passed, report
from bench.fuzz.run import Measured, play_everything, play_one
from bench.fuzz.slow_clients import allow_open_files
from bench.rounds import Json
from loadtest.processes import StartError


def main() -> int:
    """Run the fuzzers and print their JSON line."""
    parser = new_parser("fuzz")
    parser.add_argument("--seed", type=int, default=1, help="of the random cases")
    parser.add_argument("--only", metavar="TAG", help="play one case")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    passed = False

    async def run() -> Measured:
        async with asyncio.timeout(plan.limit_seconds):
            if arguments.only is not None:
                return await play_one(plan, arguments.only, seed=arguments.seed)
            await look_at_machine()
            return await play_everything(plan, seed=arguments.seed)

    def measure() -> Json:
        nonlocal passed
        allow_open_files()
        found = report(uvloop.run(run()), seed=arguments.seed)
        passed = is_passed(found, is_quick=arguments.quick or arguments.only is not None)
        return found

    status = print_line(measure, (StartError, TimeoutError))
    return status or int(not passed)


if __name__ == "__main__":
    sys.exit(main())
