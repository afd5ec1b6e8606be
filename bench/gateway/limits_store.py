"""What limits in a Redis server add to a request, against limits in the gateway itself.

    python -m bench.gateway.limits_store [--quick]

The figures of docs/adr/0031-limits-over-replicas.md come from here. Both gateways run at the same
time on the fake worker and get requests in turn, one by one; then each is measured with 16
connections. Progress goes to stderr; the last line on stdout is one JSON object.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from bench.calls import Call, stream_call
from bench.client import LoadConnection
from bench.command import look_at_machine, new_parser
from bench.gateway.command import run_and_print
from bench.gateway.figures import percentile_ms
from bench.gateway.probes import Readings, at_saturation
from bench.gateway.targets import fake_worker_command
from bench.rounds import Json, put_summary, rotated, summary_of
from gateway.admission import KeyLimits, add_record, new_key
from loadtest.processes import Command, StartError, free_port, start_child
from loadtest.progress import say

_LIMIT_SECONDS = 900.0
_WARM_UP = 50
_MANY = 1_000_000_000
_LIMITS = KeyLimits(_MANY, _MANY, 10_000)
_LOCAL, _STORE = "local", "store"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds: Times each gateway is measured.
        count: Streams to each gateway in sequence, in each round.
        seconds: Duration of each round with 16 connections.
    """

    rounds: int = 10
    count: int = 600
    seconds: float = 3.0
    connections: int = 16


async def run(plan: Plan) -> Json:
    """Measure both gateways in every round.

    Raises:
        StartError: A process did not come up.
    """
    machine = await look_at_machine()
    one_p50: defaultdict[str, list[float]] = defaultdict(list)
    many_p50: defaultdict[str, list[float]] = defaultdict(list)
    per_second: defaultdict[str, list[float]] = defaultdict(list)
    errors = 0
    with tempfile.TemporaryDirectory(prefix="specgate-limits-") as folder:
        async with _running(Path(folder)) as (call, ports):
            for number in range(plan.rounds):
                one = await _in_turn(call, ports, plan.count)
                for name, readings in one.items():
                    one_p50[name].append(_first_byte_p50_ms(readings))
                    errors += len(readings.flaws)
                for name in rotated(ports, number):
                    many = await at_saturation(
                        ports[name], call, connections=plan.connections, seconds=plan.seconds
                    )
                    many_p50[name].append(_first_byte_p50_ms(many))
                    seconds = (many.ended_ns - many.began_ns) / 1e9
                    per_second[name].append(len(many.exchanges) / seconds)
                    errors += len(many.flaws)
                say(
                    f"round {number + 1}/{plan.rounds}: {one_p50[_STORE][-1]:.3f} ms with the store"
                )
    found: Json = {"bench": "limits-store", "rounds": plan.rounds, "errors": errors}
    for what, values in (("first_byte_p50_ms", one_p50), ("first_byte_p50_ms_of_16", many_p50)):
        put_summary(found, f"{what}_local", summary_of(values[_LOCAL]))
        pairs = zip(values[_STORE], values[_LOCAL], strict=True)
        put_summary(
            found, f"{what}_added", summary_of([with_it - without for with_it, without in pairs])
        )
    for name, rates in per_second.items():
        put_summary(found, f"streams_per_second_{name}", summary_of(rates))
    return found | {"machine": machine.as_json()}


async def _in_turn(call: Call, ports: dict[str, int], count: int) -> dict[str, Readings]:
    """Streams to the gateways, one at a time and in turn: the machine's moods affect all alike."""
    found = {name: Readings() for name in ports}
    async with AsyncExitStack() as stack:
        connections = {name: await LoadConnection.open(port) for name, port in ports.items()}
        for connection in connections.values():
            stack.callback(connection.close)
        for number in range(_WARM_UP + count):
            for name in rotated(connections, number):
                exchange = await connections[name].exchange(call.request, timeout_seconds=10.0)
                flaw = call.flaw_of(exchange)
                if flaw is not None:
                    found[name].flaws.append(flaw)
                elif number >= _WARM_UP:
                    found[name].exchanges.append(exchange)
    return found


def _first_byte_p50_ms(readings: Readings) -> float:
    found = percentile_ms([e.first_byte_ns - e.sent_ns for e in readings.exchanges], 0.50)
    return float("nan") if found is None else found


@asynccontextmanager
async def _running(folder: Path) -> AsyncIterator[tuple[Call, dict[str, int]]]:
    """Start everything; yields the call with its key, and the port of each gateway."""
    text, record = new_key(tenant="bench", name="bench", created="", limits=_LIMITS)
    add_record(folder / "keys", record)
    plain = stream_call(chunks=4)
    call = replace(
        plain, request=plain.request.replace(b"Bearer unused", b"Bearer " + text.encode())
    )
    ports = {_LOCAL: free_port(), _STORE: free_port()}
    worker_port, redis_port = free_port(), free_port()
    async with AsyncExitStack() as stack:
        _start_redis(stack, folder, redis_port)
        await start_child(stack, fake_worker_command(worker_port), folder)
        for name, port in ports.items():
            settings = {
                "port": port,
                "workers": [f"http://127.0.0.1:{worker_port}"],
                "keys": {"file": str(folder / "keys")},
                "limits": {"store": f"redis://127.0.0.1:{redis_port}"} if name == _STORE else {},
                "pacing": {"mode": "off"},
                "drain": {"accept_seconds": 0.0, "finish_seconds": 1.0},
            }
            await start_child(stack, _gateway(folder, name, settings), folder)
        yield call, ports


def _start_redis(stack: AsyncExitStack, folder: Path, port: int) -> None:
    here = str(Path(sys.executable).parent)
    program = shutil.which("redis-server", path=os.pathsep.join((here, os.environ["PATH"])))
    if program is None:
        raise StartError("no redis-server: scripts/install.sh redis")
    options = ("--port", str(port), "--save", "", "--dir", str(folder))
    redis = stack.enter_context(
        subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, start_new_session=True)
    )
    stack.callback(redis.kill)


def _gateway(folder: Path, name: str, settings: Json) -> Command:
    config = folder / f"{name}.yaml"
    config.write_text(yaml.safe_dump({"gateway": settings}), encoding="utf-8")
    return Command(
        name=f"gateway-{name}",
        arguments=[sys.executable, "-m", "gateway", "--config", str(config)],
        ready_url=f"http://127.0.0.1:{settings['port']}/health/ready",
        start_seconds=60.0,
        environment={},
    )


def main() -> int:
    """Run the benchmark and print its JSON line."""
    arguments = new_parser("gateway.limits_store").parse_args()
    plan = Plan(rounds=3, count=200, seconds=1.0) if arguments.quick else Plan()
    return run_and_print(lambda: run(plan), limit_seconds=_LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
