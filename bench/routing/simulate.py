"""Runs one cell of the plan and takes its figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, quantiles

from bench.routing.fleet import Fleet, Run
from bench.routing.ours import ExpectedTime
from bench.routing.plan import (
    FIRST_SECONDS,
    REQUESTS_PER_SECOND,
    TOKEN_SECONDS,
    WARM_UP,
    Cell,
    scenario_of,
)
from bench.routing.rules import OTHERS
from bench.routing.traffic import Request, make_traffic
from bench.routing.worker import Job

_LEAST_TENANTS = 12


@dataclass(frozen=True, slots=True)
class Figures:
    """What a rule reached in a cell.

    Attributes:
        good_tokens: Answer tokens of requests that kept both objectives.
        max_over_mean: Of requests at a worker, averaged over time; of workers that nothing happened
            to. None if there are fewer than two.
        prefix_hit: Share of prompt tokens that were cached.
        first_ms: Median and 99th percentile of the time to the first token.
        expected_to_seen: Expected over seen time; of the gateway's own rule.
        decide_us: How long choices took, likewise; median and 99th percentile.
    """

    good_tokens: int
    max_over_mean: float | None
    prefix_hit: float
    first_ms: tuple[float, float]
    expected_to_seen: float | None = None
    decide_us: tuple[float, float] | None = None


def simulate(cell: Cell) -> Figures:
    """Play the cell's traffic with the cell's rule."""
    traffic = make_traffic(
        cell.seed,
        tenants=max(_LEAST_TENANTS, cell.workers),
        requests_per_second=REQUESTS_PER_SECOND * cell.workers,
        seconds=cell.seconds,
    )
    make_rule = OTHERS.get(cell.rule, ExpectedTime)
    scenario = scenario_of(cell)
    fleet = Fleet(cell.workers, cell.replicas, scenario, make_rule, seed=cell.seed)
    run = fleet.play(traffic, cell.seconds, warm_up=cell.seconds * WARM_UP)
    return _figures(cell, run, {change.worker for change in scenario.changes})


def _figures(cell: Cell, run: Run, changed: set[int]) -> Figures:
    jobs = [job for job in run.jobs if job.request.at >= cell.seconds * WARM_UP]
    loads = [load for at, load in enumerate(run.present_seconds) if at not in changed]
    ours = [rule for rule in run.rules if isinstance(rule, ExpectedTime)]
    seen_seconds = sum(rule.seen_seconds for rule in ours)
    decided = [seconds * 1e6 for rule in ours for seconds in rule.decide_seconds]
    return Figures(
        good_tokens=sum(job.request.answer_tokens for job in jobs if _is_good(job)),
        max_over_mean=max(loads) / fmean(loads) if len(loads) > 1 else None,
        prefix_hit=sum(job.cached_tokens for job in jobs)
        / sum(job.request.prompt_tokens for job in jobs),
        first_ms=_middle_and_tail([1e3 * _first_seconds(job) for job in jobs]),
        expected_to_seen=sum(rule.expected_seconds for rule in ours) / seen_seconds
        if ours
        else None,
        decide_us=_middle_and_tail(decided) if ours else None,
    )


def _is_good(job: Job) -> bool:
    request: Request = job.request
    assert job.first is not None
    assert job.ended is not None
    token_seconds = (job.ended - job.first) / max(1, request.answer_tokens - 1)
    return _first_seconds(job) <= FIRST_SECONDS and token_seconds <= TOKEN_SECONDS


def _first_seconds(job: Job) -> float:
    """From the arrival of the request, attempts on lost workers included."""
    assert job.first is not None
    return job.first - job.request.at


def _middle_and_tail(values: Sequence[float]) -> tuple[float, float]:
    parts = quantiles(values, n=100)
    return parts[49], parts[98]
