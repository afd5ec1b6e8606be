"""`make soak`: steady load on the real service for an hour; does its memory grow?

    python -m loadtest.soak [--minutes N] [--rate N] [--scenario NAME|FILE] [--seed N]

The worker's KV cache is filled once before (`kv_cache`). Progress goes to stderr; the last line on
stdout is one JSON object. Growth of a process is the median of its memory (`written_bytes`) in the
last tenth of the time after the warm-up, over that in the first tenth, less one; `by_minute` shows
it beside the requests that ran. Exit status 1: a process grew more than 2 %, a request did not
end well, a process was replaced, or more and more requests ran at a time: then the machine could
not keep up, and growth of memory means nothing.
"""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import yaml

from loadtest.kv_cache import fill_cache
from loadtest.load import (
    Client,
    MadeUpPrompts,
    Outcome,
    Scenario,
    ScenarioError,
    ServerError,
    figures_of,
    find_server,
    load_scenario,
    make_plan,
    play,
)
from loadtest.machine import describe_machine
from loadtest.memory import Processes, written_bytes
from loadtest.processes import StartError, free_port
from loadtest.progress import say
from loadtest.service import ServiceError, private_cache, start_gateway

PROFILE = Path(__file__).parents[1] / "configs" / "cpu-smollm2.yaml"
_SAMPLE_SECONDS = 5.0
_LIMIT_SECONDS = 300.0
_BEFORE_SECONDS = 1_200.0
"""To start, and to fill the KV cache."""
_STOP_SECONDS = 100.0
_WARM_UP_SHARE = 1 / 3
_MOST_WARM_UP_SECONDS = 600.0
_WINDOW_SHARE = 0.1
_LEAST_SAMPLES = 5
_MOST_GROWTH = 0.02
_MOST_BACKLOG_GROWTH = 1.5
_SMALL_BACKLOG = 16
"""Requests at a time that any worker takes."""
_MIB = 2**20
_INTERRUPTED = 128 + signal.SIGINT

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory of every process at one moment.

    Attributes:
        seconds: Since the load began.
        at_ns: The same moment by CLOCK_MONOTONIC.
        own_bytes: What each process wrote, by its name.
        rss_bytes: Likewise.
    """

    seconds: float
    at_ns: int
    own_bytes: dict[str, int]
    rss_bytes: dict[str, int]


def growth_of(samples: Sequence[Sample], name: str, *, warm_up_seconds: float) -> float | None:
    """How much a process grew after the warm-up, as a share; None with too few samples."""
    steady = [each.own_bytes[name] for each in samples if each.seconds >= warm_up_seconds]
    if len(steady) < _LEAST_SAMPLES:
        return None
    first, last = _ends(steady)
    return last / first - 1.0


def is_sustained(running: Sequence[int]) -> bool:
    """Whether the machine keeps up, from the number of running requests after the warm-up."""
    if not running:
        return True
    first, last = _ends(running)
    return last <= max(_SMALL_BACKLOG, _MOST_BACKLOG_GROWTH * first)


def _ends(values: Sequence[int]) -> tuple[float, float]:
    """Medians of the first tenth and of the last."""
    window = max(1, int(len(values) * _WINDOW_SHARE))
    return median(values[:window]), median(values[-window:])


def warm_up_of(seconds: float) -> float:
    """How much of a run of so many seconds is warm-up."""
    return min(_MOST_WARM_UP_SECONDS, seconds * _WARM_UP_SHARE)


def report_of(
    samples: Sequence[Sample], outcomes: Sequence[Outcome], scenario: Scenario, *, same: bool
) -> Json:
    """The JSON object of a soak.

    Args:
        samples: In order, at least one.
        outcomes: Of every request.
        scenario: That was played.
        same: No process was replaced meanwhile.
    """
    seconds = samples[-1].seconds
    warm_up = warm_up_of(seconds)
    names = list(samples[0].own_bytes)
    growth = {name: growth_of(samples, name, warm_up_seconds=warm_up) for name in names}
    known = [each for each in growth.values() if each is not None]
    running = [_running(outcomes, sample.at_ns) for sample in samples]
    steady = [n for n, sample in zip(running, samples, strict=True) if sample.seconds >= warm_up]
    sustained = is_sustained(steady)
    figures = figures_of(outcomes, scenario.objective, seconds=max(1.0, seconds))
    is_clean = set(figures.endings) <= {"done", "left"}
    return {
        "bench": "soak",
        "minutes": round(seconds / 60, 2),
        "warm_up_seconds": round(warm_up, 1),
        "samples": len(samples),
        "growth_ratio": growth,
        "growth_ratio_max": max(known, default=None),
        "own_mb": {name: _spread([s.own_bytes[name] for s in samples]) for name in names},
        "rss_mb": {name: _spread([s.rss_bytes[name] for s in samples]) for name in names},
        "by_minute": _by_minute(samples, running),
        "same_processes": same,
        "sustained": sustained,
        "is_good": same and is_clean and sustained and bool(known) and max(known) <= _MOST_GROWTH,
        **figures.as_json(),
    }


def _running(outcomes: Sequence[Outcome], at_ns: int) -> int:
    recordings = (outcome.answer.recording for outcome in outcomes)
    return sum(each.sent_ns <= at_ns < each.ended_ns for each in recordings)


def _by_minute(samples: Sequence[Sample], running: Sequence[int]) -> list[Json]:
    """For each minute the medians of its samples."""
    minutes: dict[int, list[int]] = {}
    for index, sample in enumerate(samples):
        minutes.setdefault(int(sample.seconds // 60), []).append(index)
    return [
        {
            "minute": minute,
            "running": median(running[index] for index in indexes),
            "own_mb": {
                name: round(median(samples[index].own_bytes[name] for index in indexes) / _MIB, 1)
                for name in samples[0].own_bytes
            },
        }
        for minute, indexes in minutes.items()
    ]


def _spread(values: Sequence[int]) -> dict[str, float]:
    first, last, most = values[0], values[-1], max(values)
    found = {"first": first, "last": last, "max": most}
    return {name: round(value / _MIB, 1) for name, value in found.items()}


async def run(arguments: argparse.Namespace) -> Json:
    """Start the service, load it, and look at its memory.

    Raises:
        StartError: The service did not come up.
        ServerError: It cannot be tested.
        ServiceError: Its worker was lost.
    """
    seconds = arguments.minutes * 60
    scenario = load_scenario(arguments.scenario).with_arrivals(
        process="constant", requests_per_second=arguments.rate, seconds=seconds
    )
    plan = make_plan(scenario, MadeUpPrompts(), seed=arguments.seed)
    profile = yaml.safe_load(PROFILE.read_text(encoding="utf-8"))
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="specgate-soak-")))
        cache = await private_cache(PROFILE, folder)
        whole = {
            "gateway": {**profile["gateway"], "port": free_port()},
            "engine": {**profile["engine"], "cache_dir": str(cache)},
        }
        say("starting the service, which takes a minute")
        gateway = await start_gateway(stack, folder, whole, stop_seconds=_STOP_SECONDS)
        client = Client(gateway.url, limit_seconds=_LIMIT_SECONDS)
        await stack.enter_async_context(client)
        server = await find_server(client, model=None)
        await fill_cache(client, server, seed=arguments.seed)
        processes = await gateway.processes()
        samples: list[Sample] = []
        sampling = asyncio.create_task(_sample(processes, samples), name="samples")
        try:
            outcomes = await play(plan, client, server)
        finally:
            sampling.cancel()
        same = await gateway.processes() == processes
    return report_of(samples, outcomes, scenario, same=same)


async def _sample(processes: Processes, samples: list[Sample]) -> None:
    began = time.monotonic()
    while True:
        try:
            samples.append(await asyncio.to_thread(_look, processes, time.monotonic() - began))
        except psutil.NoSuchProcess:
            return  # replaced: the report says so
        await asyncio.sleep(_SAMPLE_SECONDS)


def _look(processes: Processes, seconds: float) -> Sample:
    found = processes.by_name()
    return Sample(
        seconds=seconds,
        at_ns=time.monotonic_ns(),
        own_bytes={name: written_bytes(process) for name, process in found.items()},
        rss_bytes={name: int(process.memory_info().rss) for name, process in found.items()},
    )


async def _measure(arguments: argparse.Namespace) -> Json:
    machine = await describe_machine()
    bound = arguments.minutes * 60 + _BEFORE_SECONDS + _LIMIT_SECONDS + _STOP_SECONDS
    found = await asyncio.wait_for(run(arguments), bound)
    return found | {"seed": arguments.seed, "machine": machine.as_json()}


def main() -> int:
    """Run the soak and print its JSON line."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    parser = argparse.ArgumentParser(prog="python -m loadtest.soak")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, help="arrivals per second, instead of the scenario's")
    parser.add_argument("--scenario", default="mixed", help="a name or a YAML file")
    parser.add_argument("--seed", type=int, default=0)
    try:
        found = asyncio.run(_measure(parser.parse_args()))
    except (OSError, ScenarioError, ServerError, ServiceError, StartError, TimeoutError) as error:
        say(f"failed: {error!r}")
        return 1
    except KeyboardInterrupt:
        say("stopped")
        return _INTERRUPTED
    sys.stdout.write(json.dumps(found) + "\n")
    return 0 if found["is_good"] else 1


if __name__ == "__main__":
    sys.exit(main())
