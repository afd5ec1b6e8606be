"""Three real workers behind each router in turn, with the same conversations.

Workers start anew for each router, so that no cache knows what an earlier one was sent.
"""

import asyncio
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.rounds import Json, rotated
from bench.routing.routers import ROUTERS
from bench.suffix.corpus import CONFIG
from loadtest.load import (
    Client,
    Ending,
    MadeUpPrompts,
    Outcome,
    Scenario,
    figures_of,
    find_server,
    load_scenario,
    make_plan,
    play,
)
from loadtest.load.plan import Arrival
from loadtest.load.recorded import RecordedPrompts
from loadtest.processes import free_port
from loadtest.progress import say
from loadtest.service import start_worker

_SCENARIO = Path(__file__).parent / "sessions.yaml"
_WORKERS = 3
_BLOCK_TOKENS, _BLOCKS = 32, 384
"""Of a worker's KV cache: room for one and a half of the longest prompts."""
_STOP_SECONDS = 30.0
_LIMIT_SECONDS = 120.0
_COUNTERS = {
    "asked": "vllm:prefix_cache_queries_total",
    "hit": "vllm:prefix_cache_hits_total",
    "accepted": "engine_spec_accepted_tokens_total",
    "generated": "vllm:generation_tokens_total",
}

_DEFINITIONS = {
    "prefix_hit": "prompt tokens that the workers had cached, of all",
    "ttft_p50_ms": "from when a turn was due to its first text, over all rounds; p99 likewise",
    "accepted_share": "generated tokens that were drafted and accepted, of all",
    "tokens_per_second": "generated tokens over the time from the first turn to the last answer",
    "failed": "requests that did not end normally",
}


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured.

    Attributes:
        rules: Names of `ROUTERS`.
        seconds: In which conversations begin, in each round.
    """

    rules: Sequence[str]
    rounds: int
    seconds: float


FULL = Size(tuple(ROUTERS), rounds=2, seconds=90.0)
QUICK = Size(("expected_time", "least_loaded"), rounds=1, seconds=20.0)


@dataclass(frozen=True, slots=True)
class Round:
    """One router's answers in a round.

    Attributes:
        counts: What the workers counted meanwhile, by `_COUNTERS`.
        seconds: From the first turn to the last answer.
    """

    outcomes: Sequence[Outcome]
    counts: Mapping[str, float]
    seconds: float

    @property
    def prefix_hit(self) -> float:
        return self.counts["hit"] / self.counts["asked"]


async def measure(size: Size, data: Path) -> Json:
    """Play every round to every router.

    Args:
        size: How much.
        data: Folder of recorded conversations; without one they are made up.

    Raises:
        DataError, InstallError, ServerError, StartError: It cannot be measured.
    """
    scenario = load_scenario(str(_SCENARIO)).with_arrivals(seconds=size.seconds)
    prompts = _prompts_of(data, scenario)
    found: dict[str, list[Round]] = defaultdict(list)
    for number in range(size.rounds):
        plan = make_plan(scenario, prompts, seed=number)
        for rule in rotated(size.rules, number):
            one = await _play(rule, plan)
            found[rule].append(one)
            say(f"round {number + 1}, {rule}: {one.prefix_hit:.2f} of prompt tokens were cached")
    return {
        "real": {rule: figures(found[rule], scenario) for rule in size.rules},
        "real_prompts": "recorded" if isinstance(prompts, RecordedPrompts) else "made up",
        "real_definitions": _DEFINITIONS,
    }


def _prompts_of(data: Path, scenario: Scenario) -> RecordedPrompts | MadeUpPrompts:
    return RecordedPrompts(data, scenario.mix) if data.is_dir() else MadeUpPrompts()


async def _play(rule: str, plan: Sequence[Arrival]) -> Round:
    async with AsyncExitStack() as stack:
        ports = [free_port() for _ in range(_WORKERS)]
        starts = (_start_worker(stack, port) for port in ports)
        # All are waited for, so that none is still starting when they are stopped.
        for error in await asyncio.gather(*starts, return_exceptions=True):
            if error is not None:
                raise error
        port = await ROUTERS[rule](stack, ports)
        url = f"http://127.0.0.1:{port}"
        client = await stack.enter_async_context(Client(url, limit_seconds=_LIMIT_SECONDS))
        server = await find_server(client, model=None)
        before = await _counts(ports)
        outcomes = await play(plan, client, server)
        after = await _counts(ports)
    begin = min(outcome.answer.recording.due_ns for outcome in outcomes)
    end = max(outcome.answer.ended_ns for outcome in outcomes)
    counts = {name: after[name] - before[name] for name in _COUNTERS}
    return Round(outcomes, counts, (end - begin) / 1e9)


async def _start_worker(stack: AsyncExitStack, port: int) -> None:
    """Start the default profile's worker with a small KV cache, on one thread."""
    engine: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["engine"]
    engine["vllm"] |= {"block_size": _BLOCK_TOKENS, "num_gpu_blocks_override": _BLOCKS}
    engine["environment"] |= {"OMP_NUM_THREADS": 1, "VLLM_CPU_KVCACHE_SPACE": 1}
    engine["speculation"] |= {"suffix": {"warm_start": False}}
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-routing-")))
    await start_worker(stack, folder, engine, port=port, stop_seconds=_STOP_SECONDS)


async def _counts(ports: Sequence[int]) -> Mapping[str, float]:
    """Sum the workers' counters."""
    total = Counter[str]()
    for port in ports:
        async with Client(f"http://127.0.0.1:{port}", limit_seconds=_LIMIT_SECONDS) as client:
            _, page = await client.get("/metrics")
        total.update(counts_of(page.decode()))
    return total


def counts_of(page: str) -> dict[str, float]:
    """Read the counters of a worker from its metrics, by their names in `Round.counts`."""
    return {
        name: sum(map(float, re.findall(rf"^{counter}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)))
        for name, counter in _COUNTERS.items()
    }


def figures(rounds: Sequence[Round], scenario: Scenario) -> Json:
    """What one router came to; the report explains the keys."""
    outcomes = [outcome for one in rounds for outcome in one.outcomes]
    seconds = sum(one.seconds for one in rounds)
    found = figures_of(outcomes, scenario.objective, seconds=seconds)
    counts = {name: sum(one.counts[name] for one in rounds) for name in _COUNTERS}
    first = found.first_token_ms
    return {
        "prefix_hit": counts["hit"] / counts["asked"],
        "prefix_hit_rounds": [one.prefix_hit for one in rounds],
        "ttft_p50_ms": first and first.p50,
        "ttft_p99_ms": first and first.p99,
        "accepted_share": counts["accepted"] / counts["generated"],
        "tokens_per_second": counts["generated"] / seconds,
        "requests": len(outcomes),
        "failed": sum(outcome.answer.ending is not Ending.DONE for outcome in outcomes),
    }
