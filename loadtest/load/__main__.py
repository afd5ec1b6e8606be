"""`make load`: an open-loop load test of any server that speaks OpenAI's chat completions.

    python -m loadtest.load --url URL [--scenario NAME|FILE] [--data DIR] [--page FILE] [--seed N]
        [--rate N] [--seconds N] [--process poisson|constant] [--model NAME] [--key-file FILE]

Progress goes to stderr; the last line on stdout is one JSON object (see report.py, figures.py).
Exit status 1: the server cannot be tested, or no request was answered well.
"""

import argparse
import asyncio
import gc
import json
import signal
import sys
from pathlib import Path

from loadtest.conversations import DataError
from loadtest.load.answer import Ending
from loadtest.load.client import Client
from loadtest.load.made_up import MadeUpPrompts
from loadtest.load.page import page_of
from loadtest.load.plan import make_plan
from loadtest.load.recorded import RecordedPrompts
from loadtest.load.report import Run, report_of
from loadtest.load.run import ServerError, find_server, play
from loadtest.load.scenario import Scenario, ScenarioError, load_scenario, scenario_names
from loadtest.machine import describe_machine
from loadtest.progress import say

_LIMIT_SECONDS = 600.0


async def run_load(arguments: argparse.Namespace, scenario: Scenario) -> Run:
    """Plan and play a run.

    Raises:
        DataError: The data cannot be used.
        ServerError: The server cannot be tested.
    """
    data: Path | None = arguments.data
    prompts = MadeUpPrompts() if data is None else RecordedPrompts(data, scenario.mix)
    plan = make_plan(scenario, prompts, seed=arguments.seed)
    key = None
    if arguments.key_file is not None:
        key = arguments.key_file.read_text(encoding="utf-8").strip()
    async with Client(arguments.url, key=key, limit_seconds=arguments.limit_seconds) as client:
        server = await find_server(client, model=arguments.model)
        say(f"{len(plan)} clients will come; {server.model} counts tokens: {server.counts_tokens}")
        gc.collect()
        gc.disable()  # a collection in the client would be taken for latency of the server
        outcomes = await play(plan, client, server)
    return Run(
        name=arguments.scenario,
        scenario=scenario,
        url=arguments.url,
        server=server,
        seed=arguments.seed,
        data=None if data is None else data.name,
        plan=plan,
        outcomes=outcomes,
    )


async def _measure(arguments: argparse.Namespace) -> int:
    scenario = load_scenario(arguments.scenario)
    scenario = scenario.with_arrivals(
        process=arguments.process, requests_per_second=arguments.rate, seconds=arguments.seconds
    )
    machine = await describe_machine()
    run = await run_load(arguments, scenario)
    report = report_of(run) | {"machine": machine.as_json()}
    if arguments.page is not None:
        arguments.page.parent.mkdir(parents=True, exist_ok=True)
        arguments.page.write_text(page_of(run, report), encoding="utf-8")
        say(f"the page is in {arguments.page}")
    sys.stdout.write(json.dumps(report) + "\n")
    return 0 if any(o.answer.ending is Ending.DONE for o in run.outcomes) else 1


def main() -> int:
    """Run a load test and print its JSON line."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    parser = argparse.ArgumentParser(prog="python -m loadtest.load")
    parser.add_argument("--url", required=True, help="of the server, without /v1")
    parser.add_argument(
        "--scenario", default="mixed", help=f"a YAML file, or of {', '.join(scenario_names())}"
    )
    parser.add_argument("--data", type=Path, help="folder of prompts; else they are made up")
    parser.add_argument("--page", type=Path, help="write the report as HTML, too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, help="arrivals per second, instead of the scenario's")
    parser.add_argument("--seconds", type=float, help="of each stage, instead of the scenario's")
    parser.add_argument("--process", choices=["poisson", "constant"])
    parser.add_argument("--model", help="instead of the first that the server lists")
    parser.add_argument("--key-file", type=Path, help="file with the key to send")
    parser.add_argument(
        "--limit-seconds", type=float, default=_LIMIT_SECONDS, help="then a request has hung"
    )
    try:
        return asyncio.run(_measure(parser.parse_args()))
    except (DataError, OSError, ScenarioError, ServerError) as error:
        say(f"failed: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
