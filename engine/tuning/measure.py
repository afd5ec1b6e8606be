"""Measures a variant on a real worker: alone, request after request, and with many clients."""

import asyncio
import json
import re
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine.drafting import SOURCE_NAMES, Origin
from engine.errors import TrainingError
from engine.training import Writer
from engine.tuning.variants import Variant
from engine.tuning.workload import Prompt

_PLACES = 32
_WARM_UP_TOKENS = 16
_LEAST_REQUESTS = 3
_BURST_TOKENS = 48
_REPORT_SECONDS = 1.3  # the worker writes its report once a second
_IDLE_SECONDS = 30.0
# vLLM's processes spin for a second after their last message (`SpinCondition`, vLLM 0.32).
SETTLE_SECONDS = 1.2
_GENERATED = re.compile(r"^vllm:generation_tokens_total\{[^}]*\} (\S+)$", re.MULTILINE)
_RUNNING = re.compile(r"^vllm:num_requests_(?:running|waiting)\{[^}]*\} (\S+)$", re.MULTILINE)

Points = list[tuple[int, float]]


@dataclass(slots=True)
class Measurement:
    """What one worker showed.

    Attributes:
        variant: Its name.
        requests: Answered one after the other, and their `tokens`.
        seconds: Of these requests, prompts included.
        prefill_seconds: Of that, until the first tokens.
        drafted, accepted: Draft tokens by source and place, the first place first.
        answers: Token ids of each answer.
        trace: Accepted tokens of each step of each request, of the source that needs a forward
            pass, drafting in every step; empty if there is none.
        trace_tokens: Longest draft in it.
        memory_mib: Of the worker's processes; memory that processes share counts once.
        start_seconds: Until it served.
        step_ms: (tokens, milliseconds), as its gate learnt them; empty without a gate.
        pass_ms: (sequences, milliseconds) of the head.
        verify_ms: (sequences, milliseconds) that verifying any draft adds.
    """

    variant: str
    requests: int = 0
    tokens: int = 0
    seconds: float = 0.0
    prefill_seconds: float = 0.0
    drafted: dict[str, list[int]] = field(default_factory=dict)
    accepted: dict[str, list[int]] = field(default_factory=dict)
    answers: list[list[int]] = field(default_factory=list)
    trace: list[list[int]] = field(default_factory=list)
    trace_tokens: int = 0
    memory_mib: float = 0.0
    start_seconds: float = 0.0
    step_ms: Points = field(default_factory=list)
    pass_ms: Points = field(default_factory=list)
    verify_ms: Points = field(default_factory=list)

    @property
    def goodput(self) -> float:
        """Tokens a second of one client."""
        return self.tokens / self.seconds

    @property
    def prefill_per_token(self) -> float:
        """Seconds of prompts for each generated token."""
        return self.prefill_seconds / self.tokens

    def as_json(self) -> dict[str, Any]:
        """Return it for a file."""
        return asdict(self)

    def take(self, answer: dict[str, Any], seconds: float) -> None:
        """Add an answer and its time."""
        tokens = answer["choices"][0]["token_ids"]
        metrics = answer.get("metrics") or {}
        self.requests += 1
        self.tokens += len(tokens)
        self.seconds += seconds
        self.prefill_seconds += float(metrics.get("time_to_first_token_ms") or 0.0) / 1e3
        self.answers.append(tokens)
        for code, accepted in steps_of(answer):
            origin, drafted = Origin.decode(code)
            _count(self.drafted, origin, drafted)
            _count(self.accepted, origin, accepted)


def steps_of(answer: dict[str, Any]) -> list[tuple[int, int]]:
    """Return (code of what was drafted, accepted tokens) of each step that verified a draft."""
    found = (answer.get("metrics") or {}).get("speculative_decoding") or {}
    drafted = found.get("per_step_drafted") or []
    return list(zip(drafted, found.get("per_step_accepted") or [], strict=True))


def _count(places: dict[str, list[int]], origin: Origin, count: int) -> None:
    for source, first, tokens in origin.split(count):
        by_place = places.setdefault(SOURCE_NAMES.get(source, "native"), [0] * _PLACES)
        for place in range(first, min(first + tokens, _PLACES)):
            by_place[place] += 1


async def measure_alone(
    writer: Writer,
    variant: Variant,
    prompts: Sequence[Prompt],
    *,
    seconds: float,
    count: int | None,
    burst: int,
) -> Measurement:
    """Measure a variant with one request at a time.

    Args:
        writer: Its worker, fresh.
        variant: What it drafts with.
        prompts: Of the workload.
        seconds: After so much time no request begins; the trace has as much again.
        count: How many requests; None: as many as there is time for.
        burst: Clients of a burst in the end, from which the gate learns the costs of larger steps;
            0: none.

    Raises:
        TrainingError: A request failed.
    """
    await _ask(writer, prompts[0], "warm-up", most=_WARM_UP_TOKENS)
    await asyncio.sleep(SETTLE_SECONDS)
    found = Measurement(variant.name)
    ends_at = time.monotonic() + seconds
    for prompt in prompts[:count]:
        if time.monotonic() > ends_at and found.requests >= _LEAST_REQUESTS:
            break
        began = time.perf_counter()
        answer = await _ask(writer, prompt, "alone")
        found.take(answer, time.perf_counter() - began)
    found.memory_mib = memory_mib(writer.pid)
    if variant.forward is not None:
        await _trace(writer, found, prompts, variant.forward, time.monotonic() + seconds)
    if variant.sources:
        if burst:
            await run_cell(writer, deal(prompts, 0, 2 * burst, "burst"), burst, _BURST_TOKENS)
        await asyncio.sleep(_REPORT_SECONDS)
        _read_costs(found, json.loads(await writer.read("/speculation")))
    return found


async def _trace(
    writer: Writer, found: Measurement, prompts: Sequence[Prompt], source: str, ends_at: float
) -> None:
    """Ask again, with a draft of this source alone in every step."""
    always = {"specgate_mode": source, "specgate_price": 0.0}
    for prompt, _ in zip(prompts, found.answers, strict=False):
        if time.monotonic() > ends_at and len(found.trace) >= _LEAST_REQUESTS:
            break
        steps = steps_of(await _ask(writer, prompt, "trace", wishes=always))
        found.trace.append([accepted for _, accepted in steps])
        longest = max((Origin.decode(code)[1] for code, _ in steps), default=0)
        found.trace_tokens = max(found.trace_tokens, longest)


def _read_costs(found: Measurement, report: dict[str, Any]) -> None:
    gate = report["engines"][0]["gate"]
    found.step_ms = _points(gate["step_cost_ms"])
    found.pass_ms = _points(gate["pass_cost_ms"])
    found.verify_ms = _points(gate["verification_cost_ms"])


def _points(found: Any) -> Points:
    return [(int(at), float(ms)) for at, ms in found or []]


Dealt = Sequence[tuple[Prompt, str]]
"""Prompts, each with the tenant that asks it."""


def deal(prompts: Sequence[Prompt], begin: int, count: int, tenant: str) -> Dealt:
    """Return the next prompts; a prompt that comes again is another tenant's.

    An index that has seen the answer would copy it.
    """
    return [
        (prompts[at % len(prompts)], f"{tenant}-{at // len(prompts)}")
        for at in range(begin, begin + count)
    ]


@dataclass(frozen=True, slots=True)
class Cell:
    """What all clients got while all of them were busy."""

    tokens: int
    seconds: float

    @property
    def goodput(self) -> float:
        """Tokens a second of all clients."""
        return self.tokens / self.seconds


async def run_cell(writer: Writer, dealt: Dealt, clients: int, most: int | None = None) -> Cell:
    """Have clients ask, each its next request as soon as it has the answer to the last one.

    It ends as soon as a client has nothing left to ask, since fewer clients are another load.

    Args:
        writer: A worker.
        dealt: At least a prompt for each client.
        clients: How many ask at once.
        most: Longest answers, in tokens; None: what the prompts say.

    Raises:
        TrainingError: A request failed.
    """
    waiting = deque(dealt)

    async def ask_on() -> None:
        while waiting:
            prompt, tenant = waiting.popleft()
            await _ask(writer, prompt, tenant, most=most)

    before = await _generated(writer)
    began = time.perf_counter()
    tasks = [asyncio.create_task(ask_on()) for _ in range(clients)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        seconds = time.perf_counter() - began
        cell = Cell(await _generated(writer) - before, seconds)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await _until_idle(writer)
    return cell


async def _ask(
    writer: Writer,
    prompt: Prompt,
    tenant: str,
    *,
    most: int | None = None,
    wishes: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return await writer.ask(
        prompt=list(prompt.tokens),
        max_tokens=min(prompt.most, most or prompt.most),
        temperature=0.0,
        return_token_ids=True,
        cache_salt=tenant,
        vllm_xargs={"specgate_tenant": tenant, **(wishes or {})},
    )


async def _generated(writer: Writer) -> int:
    return sum(int(float(value)) for value in _GENERATED.findall(await writer.read("/metrics")))


async def _until_idle(writer: Writer) -> None:
    """Wait until the requests that were given up have ended.

    Raises:
        TrainingError: They do not.
    """
    give_up_at = time.monotonic() + _IDLE_SECONDS
    while sum(float(value) for value in _RUNNING.findall(await writer.read("/metrics"))):
        if time.monotonic() > give_up_at:
            raise TrainingError("the worker still runs requests that were given up")
        await asyncio.sleep(0.05)


def memory_mib(pid: int) -> float:
    """Return the memory of a process and its descendants, in MiB; shared parts count once."""
    total, left = 0, [pid]
    while left:
        process = Path(f"/proc/{left.pop()}")
        try:
            rollup = (process / "smaps_rollup").read_text(encoding="ascii")
            listed = [path.read_text(encoding="ascii") for path in process.glob("task/*/children")]
        except OSError:  # it has ended meanwhile
            continue
        total += sum(int(kib) for kib in re.findall(r"^Pss:\s+(\d+)", rollup, re.MULTILINE))
        left += [int(child) for text in listed for child in text.split()]
    return total / 1024
