"""Which requests are watched, and which of them are not asked again."""

import asyncio
import time
from collections.abc import Callable
from random import Random

import pytest
from prometheus_client import CollectorRegistry

from gateway.canary import Canary, CanaryPolicy, Defects, TimeBudget, Watched
from gateway.telemetry import GatewayMetrics
from gateway.types import WorkerId
from tests.integration.waiting import eventually
from tests.unit.gateway.requests import CHAT, request_to


class Made:
    """A canary that does not run, with its clock and metrics."""

    def __init__(
        self, *, share: float, seed: int = 1, clock: Callable[[], float] | None = None
    ) -> None:
        self.now = 0.0
        self.registry = CollectorRegistry()
        self.canary = Canary(
            CanaryPolicy(share, 512, None),
            Defects(None, shut_after=1, on_change=lambda *_: None),
            TimeBudget(1.0),
            GatewayMetrics(self.registry),
            find_worker=lambda _: None,
            random=Random(seed),
            clock=clock or (lambda: self.now),
        )

    def skipped(self, reason: str) -> float:
        labels = {"model": "m", "reason": reason}
        return self.registry.get_sample_value("gateway_canary_skipped_total", labels) or 0.0


def watched(*, ids: tuple[int, ...] = (1,), body: bytes = b"", sources: int = 1) -> Watched:
    return Watched("r", "m", WorkerId("w"), CHAT, body, ids, ["suffix"] * sources)


@pytest.mark.parametrize("share", [0.05, 0.25])
def test_a_defect_is_found_after_one_over_the_share_requests(share: float) -> None:
    greedy, tries = request_to(CHAT, temperature=0), []
    for seed in range(400):
        canary, count = Made(share=share, seed=seed).canary, 1
        while canary.prepare(greedy, model="m", pacing="off").watch is None:
            count += 1
        tries.append(count)

    # The standard deviation of the mean is 1 / share / 20.
    assert sum(tries) / len(tries) == pytest.approx(1 / share, rel=0.15)


async def test_a_share_of_one_watches_all_and_zero_none() -> None:
    greedy = request_to(CHAT, temperature=0.0)

    every = [Made(share=1.0).canary.prepare(greedy, model="m", pacing="off") for _ in range(50)]
    none = [Made(share=0.0).canary.prepare(greedy, model="m", pacing="off") for _ in range(50)]

    assert all(one.watch is not None for one in every)
    assert all(one is greedy for one in none)


async def test_a_request_does_not_use_what_is_shut() -> None:
    canary = Made(share=1.0).canary
    canary.defects.add("m", "suffix")
    canary.defects.add("n", "native")

    head = canary.prepare(request_to(CHAT, temperature=0), model="m", pacing="off")
    off = canary.prepare(request_to(CHAT, temperature=0), model="n", pacing="off")

    assert (head.speculation.mode, off.speculation.mode) == ("head", "off")
    assert head.watch is not None
    assert off.watch is None


async def test_an_answer_without_tokens_or_trace_is_skipped() -> None:
    made = Made(share=1.0)
    made.canary.offer(watched(ids=()))
    made.canary.offer(watched(sources=0))

    assert (made.skipped("no_tokens"), made.skipped("plain_worker")) == (1, 1)


async def test_number_and_bytes_of_waiting_requests_are_bounded() -> None:
    many, large = Made(share=1.0), Made(share=1.0)
    for _ in range(70):
        many.canary.offer(watched())
        large.canary.offer(watched(body=b"x" * 2**20))

    assert (many.skipped("full"), large.skipped("full")) == (6, 54)


async def test_a_request_that_waits_too_long_is_dropped() -> None:
    made = Made(share=1.0)
    made.canary.offer(watched())
    made.now = 600.5
    made.canary.offer(watched())
    made.now = 601.0

    following = asyncio.create_task(made.canary.follow())
    await eventually(lambda: made.skipped("late") > 0)
    following.cancel()

    assert made.skipped("late") == 1


async def test_a_quarter_of_a_second_of_quiet_is_enough_for_all_that_wait() -> None:
    made = Made(share=1.0, clock=time.monotonic)
    made.canary.slots_changed(1, 0)
    for _ in range(8):
        made.canary.offer(watched())
    running = asyncio.create_task(made.canary.run())
    await asyncio.sleep(0.3)
    made.canary.slots_changed(0, 0)

    seconds = await eventually(lambda: made.skipped("worker_gone") == 8)
    running.cancel()

    assert 0.2 < seconds < 1.5


async def test_the_counters_of_a_model_start_at_zero() -> None:
    made = Made(share=1.0)
    made.canary.offer(watched())

    for result in ("same", "near_tie", "differs"):
        labels = {"model": "m", "result": result}
        assert made.registry.get_sample_value("gateway_canary_requests_total", labels) == 0
