"""One run: every fuzzer and every flood in turn, in front of a gateway that is started for it."""

import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from bench.fuzz import answers, requests
from bench.fuzz.answers import AnswerCase
from bench.fuzz.clients import play_clients
from bench.fuzz.description import play_description
from bench.fuzz.evil_worker import EvilWorker
from bench.fuzz.failing_worker import Share, measure_share
from bench.fuzz.findings import Finding, Findings
from bench.fuzz.plan import (
    CROWDED,
    HOSTILE,
    POLITE_ANSWER_SECONDS,
    SHARE_SECONDS,
    SHARE_SETTLE_SECONDS,
    TENANT_AT_ONCE,
    TENANTS,
    Plan,
)
from bench.fuzz.requests import RequestCase
from bench.fuzz.slow_clients import SlowFigures, hold_slowly
from bench.fuzz.subject import Subject, running_subject
from bench.fuzz.tenants import FloodFigures, flood
from bench.fuzz.workers import play_workers
from loadtest.progress import say
from tests.fakes.keys import issue_key
from tests.fakes.worker import FakeWorker

_KEPT_REQUESTS = 10_000


@dataclass(slots=True)
class Measured:
    """What a run found; None: not measured.

    Attributes:
        findings: By fuzzer.
        block_ms: Longest block of the gateway's loop, by fuzzer and flood.
        share: What the failing worker got.
        slow: What the slow clients saw.
        flood: What the tenants saw.
    """

    findings: dict[str, Findings] = field(default_factory=dict)
    block_ms: dict[str, float] = field(default_factory=dict)
    share: Share | None = None
    slow: SlowFigures | None = None
    flood: FloodFigures | None = None

    def look_at(self, name: str, subject: Subject, findings: Findings | None = None) -> None:
        """Take over what a fuzzer found, and what the gateway's log and loop show."""
        found = findings or Findings()
        for line in subject.new_crashes():
            found.add(Finding("crash", name, line))
        longest = max((block.milliseconds for block in subject.new_blocks()), default=0.0)
        self.findings[name], self.block_ms[name] = found, longest
        count = sum(found.counts.values())
        say(f"{name}: {found.cases} cases, {count} findings, loop blocked {longest:.1f} ms")


async def play_everything(plan: Plan, *, seed: int) -> Measured:
    """Run every fuzzer and every flood.

    Raises:
        StartError: A gateway did not become ready.
    """
    measured = Measured()
    await _play_requests(measured, plan, seed)
    await _play_answers(measured, plan, seed)
    await _fail_one_worker(measured)
    await _flood(measured, plan)
    return measured


async def play_one(plan: Plan, tag: str, *, seed: int) -> Measured:
    """Play the case with this tag, as `play_everything` would.

    Raises:
        StartError: A gateway did not become ready.
    """
    measured = Measured()
    if tag.startswith("r"):
        async with _fuzzed() as (worker, subject, key, _):
            chosen = (case for case in _request_cases(plan, key, seed) if case.tag == tag)
            found = await play_clients(subject.port, worker, chosen, key=key)
            measured.look_at("requests", subject, found)
        return measured
    async with EvilWorker() as evil, _gateway([evil.url], HOSTILE) as (subject, [key], _):
        every = chain(_answer_cases(plan, seed), answers.at_every_bound())
        found = await play_workers(
            subject.port, evil, (case for case in every if case.tag == tag), key=key
        )
        measured.look_at("answers", subject, found)
    return measured


async def _play_requests(measured: Measured, plan: Plan, seed: int) -> None:
    async with _fuzzed() as (worker, subject, key, folder):
        port = subject.port
        found = await play_clients(port, worker, _request_cases(plan, key, seed), key=key)
        measured.look_at("requests", subject, found)
        found = await play_description(port, folder, key=key, seed=seed, examples=plan.examples)
        measured.look_at("description", subject, found)
        measured.slow = await hold_slowly(
            port,
            subject.process,
            key=key,
            heads=plan.slow_heads,
            bodies=plan.slow_bodies,
            seconds=plan.slow_seconds,
        )
        measured.look_at("slow clients", subject)


async def _play_answers(measured: Measured, plan: Plan, seed: int) -> None:
    async with EvilWorker() as worker, _gateway([worker.url], HOSTILE) as (subject, [key], _):
        found = await play_workers(subject.port, worker, _answer_cases(plan, seed), key=key)
        measured.look_at("answers", subject, found)
        # One at a time: the loop time of many large frames at once is no case's own.
        bounds = islice(answers.at_every_bound(), 0, None, plan.every)
        found = await play_workers(subject.port, worker, bounds, key=key, at_once=1)
        measured.look_at("large frames", subject, found)


async def _fail_one_worker(measured: Measured) -> None:
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(FakeWorker()) for _ in range(2)]
        failing = await stack.enter_async_context(EvilWorker())
        urls = [*(worker.url for worker in workers), failing.url]
        subject, [key], _ = await stack.enter_async_context(_gateway(urls, {}))
        measured.share = await measure_share(
            subject.port,
            failing,
            key=key,
            seconds=SHARE_SECONDS,
            settle_seconds=SHARE_SETTLE_SECONDS,
        )
        measured.look_at("failing worker", subject)


async def _flood(measured: Measured, plan: Plan) -> None:
    async with AsyncExitStack() as stack:
        worker = await stack.enter_async_context(FakeWorker())
        gateway = _gateway([worker.url], CROWDED, tenants=TENANTS + 1)
        subject, [polite_key, *flooding_keys], _ = await stack.enter_async_context(gateway)
        measured.flood = await flood(
            subject.port,
            polite_key=polite_key,
            flooding_keys=flooding_keys,
            at_once=TENANT_AT_ONCE,
            requests=plan.polite_requests,
            answer_seconds=POLITE_ANSWER_SECONDS,
        )
        measured.look_at("flood", subject)


def _request_cases(plan: Plan, key: str, seed: int) -> Iterator[RequestCase]:
    return chain(
        islice(requests.at_every_byte(key), 0, None, plan.every),
        requests.random_requests(key, seed=seed, first=0, count=plan.requests),
    )


def _answer_cases(plan: Plan, seed: int) -> Iterator[AnswerCase]:
    return chain(
        islice(answers.at_every_byte(), 0, None, plan.every),
        answers.random_answers(seed=seed, first=0, count=plan.answers),
    )


@asynccontextmanager
async def _fuzzed() -> AsyncIterator[tuple[FakeWorker, Subject, str, Path]]:
    """A gateway in front of a good worker."""
    async with AsyncExitStack() as stack:
        worker = await stack.enter_async_context(FakeWorker(keep_requests=_KEPT_REQUESTS))
        gateway = _gateway([worker.url], HOSTILE)
        subject, [key], folder = await stack.enter_async_context(gateway)
        yield worker, subject, key, folder


@asynccontextmanager
async def _gateway(
    workers: list[str], settings: Mapping[str, Any], *, tenants: int = 1
) -> AsyncIterator[tuple[Subject, list[str], Path]]:
    """A gateway with a key for each tenant, and the folder of its files."""
    async with AsyncExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="specgate-fuzz-"))
        folder = Path(name)
        file = folder / "keys"
        keys = [issue_key(file, tenant=f"tenant-{number}") for number in range(tenants)]
        section = {**settings, "keys": {"file": str(file)}}
        yield (
            await stack.enter_async_context(running_subject(folder, workers, section)),
            keys,
            folder,
        )
