"""`make bench-exact`: whether speculation changes an answer, in every setting.

    python -m bench.exact [--quick] [--each N] [--data DIR] [--folder DIR] [--config FILE] [--table]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.command import add_data, look_at_machine, new_parser, print_line
from bench.engine.facts import facts_of
from bench.exact.ask import ask_plan
from bench.exact.plan import FULL, QUICK, Plan
from bench.exact.prompts import prompts_of
from bench.exact.records import Records
from bench.exact.report import report, table_of
from bench.exact.serving import running
from bench.peers import InstallError, install
from bench.rounds import Json
from bench.suffix.corpus import CONFIG
from bench.suffix.plan import ARCTIC_REQUIREMENTS
from engine.config import load_settings
from engine.errors import EngineError
from gateway.verify import Prompt
from loadtest.conversations import DataError
from loadtest.progress import say


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = new_parser("exact")
    add_data(parser)
    parser.add_argument(
        "--folder",
        type=Path,
        help="for the answers (100 MB): an interrupted run goes on there; else they are deleted",
    )
    parser.add_argument(
        "--each", type=int, help=f"prompts of each kind, for a first look in full ({FULL.each})"
    )
    parser.add_argument("--config", type=Path, default=CONFIG, help="the profile")
    parser.add_argument(
        "--table", action="store_true", help="ask nothing; print the folder's answers as a table"
    )
    arguments = parser.parse_args()
    if arguments.table and arguments.folder is None:
        parser.error("--table needs --folder")
    return print_line(lambda: _measure(arguments), (DataError, EngineError, InstallError, OSError))


def _measure(arguments: argparse.Namespace) -> Json:
    plan = QUICK if arguments.quick else FULL
    plan = replace(plan, each=arguments.each or plan.each)
    prompts = prompts_of(arguments.data.resolve(), each=plan.each, answer_tokens=plan.answer_tokens)
    with ExitStack() as stack:
        folder = arguments.folder or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-exact-"))
        )
        records = Records(folder.resolve())
        failed = {} if arguments.table else asyncio.run(_ask(plan, prompts, records, arguments))
        found = report(plan.passes, prompts, records)
    sys.stderr.write(table_of(found))
    machine = asyncio.run(look_at_machine())
    return {**found, "failed": failed, **facts_of(load_settings(arguments.config), machine)}


async def _ask(
    plan: Plan, prompts: Sequence[Prompt], records: Records, arguments: argparse.Namespace
) -> dict[str, str]:
    packages = Path()
    if any(one.serving.drafter == "arctic_suffix" for one in plan.passes):
        say("installing the peer where it is missing")
        peer = await install("arctic", ARCTIC_REQUIREMENTS)
        packages = next(peer.glob("lib/python*/site-packages"))
    start = partial(running, config=arguments.config, packages=packages)
    return await ask_plan(plan, prompts, records, start)


if __name__ == "__main__":
    sys.exit(main())
