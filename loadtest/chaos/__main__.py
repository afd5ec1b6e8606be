"""`make chaos`: random faults under load, on a real gateway and a real worker.

    python -m loadtest.chaos [--quick] [--faults N] [--seed N] [--profile FILE]
        [--keep DIR]

First faults between a gateway and its remote worker (`proxy`), then faults of the processes of a
service. Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
Exit status 1: a request or a process broke a guarantee, or the run was not possible.
"""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

from loadtest.chaos.crowd import Crowd
from loadtest.chaos.family import adopt_orphans, end_descendants
from loadtest.chaos.faults import Draw, Fault, Kind, draw_faults
from loadtest.chaos.guard import LimitError, bounded
from loadtest.chaos.inflict import Injury, inflict_on_connection, inflict_on_service
from loadtest.chaos.profile import MOST_REPLAYS, REQUEST_SECONDS
from loadtest.chaos.report import Chaos, Json, report_of
from loadtest.chaos.stages import running_proxied, running_service
from loadtest.load import (
    Client,
    MadeUpPrompts,
    Server,
    ServerError,
    find_server,
    load_scenario,
    make_plan,
)
from loadtest.machine import describe_machine
from loadtest.processes import StartError
from loadtest.progress import say
from loadtest.service import RunningGateway, ServiceError

PROFILE = Path(__file__).parents[2] / "configs" / "cpu-smollm2.yaml"
_SCENARIO = Path(__file__).parent / "load.yaml"
_FULL, _QUICK = 200, 12
_LIMIT_SECONDS, _QUICK_LIMIT_SECONDS = 3_000.0, 600.0
_MOST_BYTES = 12 * 2**30
_HUNG_SECONDS = REQUEST_SECONDS + 40.0
"""Longest time of a request, its wait in the queue, and some time for its last bytes."""
_WARM_UP_SECONDS = 3.0
_INTERRUPTED = 128 + signal.SIGINT
_PROXIED_RATE = 1.2
"""Requests per second: an answer is hit soon, and two workers on two cores keep up."""
_SERVICE_RATE = 0.8
"""They wait for each new worker, which has to catch up with them."""


async def run(draw: Draw, *, profile: Path, seed: int, folder: Path) -> Chaos:
    """Let every fault happen.

    Args:
        draw: Which ones.
        profile: What is run.
        seed: Of the load.
        folder: Takes settings and logs; must be empty.

    Raises:
        StartError: Gateway or worker did not come up.
        ServerError: The gateway does not answer a plain request.
        ServiceError: The gateway stopped telling about its worker.
    """
    chaos = Chaos()
    (folder / "proxied").mkdir()
    (folder / "service").mkdir()
    say(f"{len(draw.connection)} faults of connections; starting a worker and a gateway")
    async with (
        running_proxied(folder / "proxied", profile) as proxied,
        _crowd(proxied.gateway, chaos, seed, rate=_PROXIED_RATE, has_other=True) as crowd,
    ):
        await _inflict(
            draw.connection, chaos, lambda fault: inflict_on_connection(fault, proxied, crowd)
        )
    chaos.left_behind += end_descendants()
    say(f"{len(draw.service)} faults of processes; starting the service")
    async with running_service(folder / "service", profile) as service:
        chaos.first_start_seconds = service.gateway.start_seconds()[0]
        faults = draw.service
        if service.disk_flaw is not None:
            chaos.unavailable[Kind.FULL_DISK] = service.disk_flaw
            faults = tuple(each for each in faults if each.kind is not Kind.FULL_DISK)
        load = _crowd(service.gateway, chaos, seed + 1, rate=_SERVICE_RATE, has_other=False)
        async with load as crowd:
            await _inflict(faults, chaos, lambda fault: inflict_on_service(fault, service, crowd))
    chaos.left_behind += end_descendants()
    return chaos


@asynccontextmanager
async def _crowd(
    gateway: RunningGateway, chaos: Chaos, seed: int, *, rate: float, has_other: bool
) -> AsyncIterator[Crowd]:
    """Load on a gateway; the end of the block waits for every request.

    Args:
        gateway: The gateway.
        chaos: Takes the results.
        seed: Of the load.
        rate: Requests per second.
        has_other: Whether the gateway has a second worker.
    """
    scenario = load_scenario(str(_SCENARIO)).with_arrivals(requests_per_second=rate)
    prompts = MadeUpPrompts()
    plan = make_plan(scenario, prompts, seed=seed)
    probe = next(each for each in plan if each.traffic.name == "whole")
    async with Client(gateway.url, limit_seconds=_HUNG_SECONDS, connections="fresh") as client:
        server = await find_server(client, model=None)
        crowd = Crowd(client, server, plan, probe)
        running = asyncio.create_task(crowd.run(), name="crowd")
        await asyncio.sleep(_WARM_UP_SECONDS)
        try:
            yield crowd
            crowd.stop()
            await running
            await _look_at_seams(gateway, crowd, client, server, chaos, has_other=has_other)
        finally:
            running.cancel()
            chaos.began += crowd.began
            chaos.outcomes += crowd.outcomes
            chaos.tries |= gateway.tries()


async def _look_at_seams(
    gateway: RunningGateway,
    crowd: Crowd,
    client: Client,
    server: Server,
    chaos: Chaos,
    *,
    has_other: bool,
) -> None:
    resumed = gateway.resumed()
    say(f"{len(resumed)} streams went on with another worker; asking for them again")
    chaos.seams.count(
        crowd.outcomes,
        resumed,
        gateway.tries(),
        most_tries=MOST_REPLAYS + 1,
        has_other=has_other,
    )
    await chaos.seams.compare(crowd.outcomes, resumed, client, server)


async def _inflict(
    faults: Sequence[Fault],
    chaos: Chaos,
    inflict: Callable[[Fault], Awaitable[Injury | None]],
) -> None:
    for number, fault in enumerate(faults, start=1):
        await asyncio.sleep(fault.pause_seconds)
        injury = await inflict(fault)
        if injury is None:
            injury = await inflict(replace(fault, bytes_passed=0))  # no answer was so long
        if injury is None:
            chaos.missed += 1
            say(f"{number}/{len(faults)} {fault.kind}: did not happen")
            continue
        chaos.injuries.append(injury)
        took = injury.recover_seconds
        back = "no recovery" if took is None else f"{took:.2f} s"
        say(f"{number}/{len(faults)} {fault.kind}: {back}")


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="specgate-chaos-") as name:
        yield Path(name)


async def _measure(arguments: argparse.Namespace) -> Json:
    machine = await describe_machine()
    faults = arguments.faults or (_QUICK if arguments.quick else _FULL)
    limit_seconds = _QUICK_LIMIT_SECONDS if arguments.quick else _LIMIT_SECONDS
    with _folder(arguments.keep) as folder:
        async with bounded(seconds=limit_seconds, most_bytes=_MOST_BYTES):
            chaos = await run(
                draw_faults(faults, seed=arguments.seed),
                profile=arguments.profile,
                seed=arguments.seed,
                folder=folder,
            )
    return report_of(chaos) | {"seed": arguments.seed, "machine": machine.as_json()}


def main() -> int:
    """Run the faults and print their JSON line."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    parser = argparse.ArgumentParser(prog="python -m loadtest.chaos")
    parser.add_argument("--quick", action="store_true", help="a dozen faults in three minutes")
    parser.add_argument("--faults", type=int, help=f"how many; {_FULL} by default")
    parser.add_argument("--seed", type=int, default=0, help="of faults and load")
    parser.add_argument("--profile", type=Path, default=PROFILE, help="what is run")
    parser.add_argument("--keep", type=Path, help="a new folder that keeps settings and logs")
    adopt_orphans()
    try:
        found = asyncio.run(_measure(parser.parse_args()))
    except (LimitError, OSError, ServerError, ServiceError, StartError) as error:
        say(f"failed: {error}")
        return 1
    except KeyboardInterrupt:
        say("stopped; ending what still runs")
        return _INTERRUPTED
    finally:
        end_descendants()
    sys.stdout.write(json.dumps(found) + "\n")
    return 0 if found["is_good"] else 1


if __name__ == "__main__":
    sys.exit(main())
