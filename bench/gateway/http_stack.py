"""Which HTTP server and client cost a relay least: skeletons of both, measured in turn.

    python -m bench.gateway.http_stack [--rounds N]

The figures of docs/adr/0003-http-stack.md come from here. Progress goes to stderr; the last line
on stdout is one JSON object.
"""

import argparse
import gc
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.gateway.command import run_and_print
from bench.gateway.figures import (
    RoundFigures,
    added_over,
    figures_of,
    flaws_of,
    over_rounds,
)
from bench.gateway.plan import QUICK, Plan
from bench.gateway.round import Target, measure_round
from bench.gateway.targets import DIRECT, fake_worker_command
from bench.peers import InstallError, install
from bench.rounds import Json, put_summary, rotated
from loadtest.machine import describe_machine
from loadtest.processes import Command, StartError, free_port, start_child
from loadtest.progress import say

_PLAN = replace(QUICK, rounds=5, crowd_rounds=0, paced_count=1, unary_count=500)
_LIMIT_SECONDS = 1_800.0
_FACTORY = "bench.gateway.relay_skeleton:create_app"
_GRANIAN = ("granian[uvloop]==2.8.7", "aiohttp", "httpx")
_ADDED = ("unary_p50_ms", "first_byte_p50_ms", "stream_p50_ms")
_ABSOLUTE = (
    "cpu_us_per_chunk",
    "cpu_us_per_chunk_light",
    "cpu_us_per_chunk_saturated",
    "chunks_per_second",
    "errors",
)


@dataclass(frozen=True, slots=True)
class Skeleton:
    """One pairing of server and client.

    Attributes:
        options: What follows `python -m`, the address aside.
        python: The interpreter that has the server.
    """

    name: str
    client: str
    options: tuple[str, ...]
    python: str = sys.executable


def _uvicorn(http: str, loop: str, client: str) -> Skeleton:
    options = ("uvicorn", "--factory", _FACTORY, "--http", http, "--loop", loop)
    quiet = ("--log-level", "error", "--no-access-log")
    return Skeleton(f"uvicorn {http} {loop} + {client}", client, (*options, *quiet))


SKELETONS = tuple(
    _uvicorn(http, loop, client)
    for http, loop in (("httptools", "uvloop"), ("h11", "uvloop"), ("httptools", "asyncio"))
    for client in ("aiohttp", "httpx", "specgate")
)


async def _granian() -> Skeleton:
    folder = await install("granian", _GRANIAN)
    options = ("granian", _FACTORY, "--factory", "--interface", "asgi", "--loop", "uvloop")
    quiet = ("--workers", "1", "--log-level", "error", "--no-ws")
    python = str(folder / "bin" / "python")
    return Skeleton("granian uvloop + aiohttp", "aiohttp", (*options, *quiet), python)


async def run(plan: Plan) -> Json:
    """Measure every pairing in every round.

    Raises:
        StartError: The fake worker or a uvicorn did not come up.
    """
    machine = await describe_machine()
    figures: dict[str, list[RoundFigures]] = defaultdict(list)
    unavailable: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="specgate-stack-") as folder:
        async with _running(Path(folder), unavailable) as targets:
            for number in range(plan.rounds):
                for target in rotated(targets, number):
                    readings = await measure_round(target, plan, with_crowd=False)
                    figures[target.name].append(figures_of(readings, plan))
                    for flaw in flaws_of(readings)[:1]:
                        say(f"{target.name}: {flaw}")
                    del readings
                    gc.collect()  # outside the measured time
                say(f"round {number + 1}/{plan.rounds} is done")
    direct = figures.pop(DIRECT)
    return {
        "bench": "http-stack",
        "stacks": {name: _figures(direct, rounds) for name, rounds in figures.items()},
        "unavailable": unavailable,
        "rounds": plan.rounds,
        "machine": machine.as_json(),
    }


@asynccontextmanager
async def _running(folder: Path, unavailable: dict[str, str]) -> AsyncIterator[list[Target]]:
    async with AsyncExitStack() as stack:
        worker_port = free_port()
        await start_child(stack, fake_worker_command(worker_port), folder)
        targets = [Target(DIRECT, worker_port, None)]
        for skeleton in SKELETONS:
            port = free_port()
            process = await start_child(stack, _command(skeleton, worker_port, port), folder)
            targets.append(Target(skeleton.name, port, process))
        try:
            skeleton, port = await _granian(), free_port()
            process = await start_child(stack, _command(skeleton, worker_port, port), folder)
            targets.append(Target(skeleton.name, port, process))
        except (InstallError, StartError) as error:
            unavailable["granian"] = str(error)
        yield targets


def _command(skeleton: Skeleton, worker_port: int, port: int) -> Command:
    address = ("--host", "127.0.0.1", "--port", str(port))
    return Command(
        name=skeleton.name,
        arguments=[skeleton.python, "-m", *skeleton.options, *address],
        ready_url=f"http://127.0.0.1:{port}/",
        start_seconds=30.0,
        environment={
            "RELAY_UPSTREAM": f"http://127.0.0.1:{worker_port}",
            "RELAY_CLIENT": skeleton.client,
        },
    )


def _figures(direct: list[RoundFigures], rounds: list[RoundFigures]) -> Json:
    found: Json = {}
    for name in _ADDED:
        put_summary(found, f"added_{name}", added_over(direct, rounds, name))
    for name in _ABSOLUTE:
        put_summary(found, name, over_rounds(rounds, name))
    return found


def main() -> int:
    """Run the comparison and print its JSON line."""
    parser = argparse.ArgumentParser(prog="python -m bench.gateway.http_stack")
    parser.add_argument("--rounds", type=int, default=_PLAN.rounds, help="how often each runs")
    plan = replace(_PLAN, rounds=max(1, parser.parse_args().rounds))
    return run_and_print(lambda: run(plan), limit_seconds=_LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
