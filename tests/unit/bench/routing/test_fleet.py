from collections.abc import Mapping

import pytest

from bench.routing.fleet import Change, Fleet, Run, Scenario
from bench.routing.ours import ExpectedTime
from bench.routing.rules import OTHERS, MakeRule
from bench.routing.traffic import make_traffic

SECONDS = 20.0
TRAFFIC = make_traffic(1, tenants=6, requests_per_second=2, seconds=SECONDS)
RULES: Mapping[str, MakeRule] = {**OTHERS, "expected_time": ExpectedTime}


def play(make_rule: MakeRule, scenario: Scenario, *, replicas: int = 1) -> Run:
    return Fleet(4, replicas, scenario, make_rule, seed=1).play(TRAFFIC, 3 * SECONDS)


@pytest.mark.parametrize("rule", RULES)
def test_every_request_is_answered_once_though_workers_come_and_go(rule: str) -> None:
    changes = (
        Change(5.0, 0, "lost"),
        Change(8.0, 0, "up"),
        Change(10.0, 1, "drain"),
        Change(12.0, 1, "lost"),
        Change(13.0, 1, "up"),
    )
    run = play(RULES[rule], Scenario({3: 2.0}, changes), replicas=2)

    assert sorted(job.request.at for job in run.jobs) == [request.at for request in TRAFFIC]
    assert all(job.first is not None and job.request.at <= job.first for job in run.jobs)


def test_a_worker_that_is_down_gets_nothing() -> None:
    run = play(OTHERS["round_robin"], Scenario(changes=(Change(0.0, 2, "lost"),)))

    assert run.present_seconds[2] == 0
    assert min(run.present_seconds[:2]) > 0


def test_a_run_can_be_repeated() -> None:
    one, two = (play(ExpectedTime, Scenario(), replicas=4) for _ in range(2))

    assert [job.ended for job in one.jobs] == [job.ended for job in two.jobs]


def test_the_gateways_rule_finds_more_in_caches_than_load_alone() -> None:
    ours, load = (
        sum(job.cached_tokens for job in play(rule, Scenario()).jobs)
        for rule in (ExpectedTime, OTHERS["least_loaded"])
    )

    assert ours > 1.15 * load
