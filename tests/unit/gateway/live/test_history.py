import pytest

from gateway.live.history import MOST, History, between
from gateway.types import WorkerId
from tests.unit.gateway.live.samples import W, distribution, sample, totals


def test_rates_are_differences_over_the_time_between() -> None:
    first = sample(10.0, totals(tokens=100, requests=4))
    second = sample(14.0, totals(tokens=300, requests=6, active=3, queued=2))

    found = between(first, second)

    assert found.at == 1014.0
    assert found.tokens_per_second == 50.0
    assert found.requests_per_second == 0.5
    assert (found.active, found.queue) == (3, 2)


def test_quantiles_are_those_of_the_interval_alone() -> None:
    first = sample(0.0, totals(raw=distribution(1000, 0, 0), paced=distribution(0, 10, 0)))
    second = sample(5.0, totals(raw=distribution(1000, 4, 0), paced=distribution(0, 10, 6)))

    found = between(first, second)

    assert found.raw_gaps.p50 == pytest.approx(0.055)
    assert found.raw_gaps.p99 == pytest.approx(0.0991)
    assert found.raw_gaps.distribution == distribution(0, 4, 0)
    assert (found.paced_gaps.p50, found.paced_gaps.p99) == (0.1, 0.1)
    assert (found.first_token.p50, found.first_token.p99) == (None, None)


def test_the_price_is_the_median_of_the_engines() -> None:
    found = between(sample(0.0), sample(5.0, prices=(0.9, 0.1, 0.3)))

    assert found.price == 0.3


def test_without_a_price_there_is_none() -> None:
    assert between(sample(0.0, prices=(0.5,)), sample(5.0)).price is None


def test_drafts_of_all_engines_are_added_up_by_source() -> None:
    other = WorkerId("v")
    first = {(W, 0, "suffix"): (100, 50), (other, 1, "suffix"): (7, 7), (W, 0, "head"): (4, 1)}
    second = {(W, 0, "suffix"): (120, 60), (other, 1, "suffix"): (27, 12), (W, 0, "head"): (4, 1)}

    found = between(sample(0.0, drafts=first), sample(10.0, drafts=second))

    assert found.drafted_per_second == {"suffix": 4.0, "head": 0.0}
    assert found.acceptance == {"suffix": 0.375}


def test_a_worker_that_was_restarted_counts_from_0() -> None:
    first, second = {(W, 0, "suffix"): (1000, 900)}, {(W, 0, "suffix"): (10, 5)}

    found = between(sample(0.0, drafts=first), sample(5.0, drafts=second))

    assert found.drafted_per_second == {"suffix": 2.0}
    assert found.acceptance == {"suffix": 0.5}


def test_a_worker_that_did_not_tell_before_makes_no_peak() -> None:
    found = between(sample(0.0), sample(5.0, drafts={(W, 0, "suffix"): (9000, 1)}))

    assert found.drafted_per_second == {}


def test_the_first_drafts_count_and_sources_that_never_drafted_do_not() -> None:
    first = {(W, 0, "suffix"): (0, 0), (W, 0, "head"): (0, 0)}
    second = {(W, 0, "suffix"): (10, 5), (W, 0, "head"): (0, 0)}

    found = between(sample(0.0, drafts=first), sample(5.0, drafts=second))

    assert found.drafted_per_second == {"suffix": 2.0}
    assert found.acceptance == {"suffix": 0.5}


def test_the_first_sample_is_no_interval() -> None:
    history = History()

    history.add(sample(0.0))

    assert list(history) == []


def test_the_latest_intervals_are_kept() -> None:
    history = History()
    for second in range(MOST + 20):
        history.add(sample(float(second)))

    kept = list(history)
    assert len(kept) == MOST
    assert kept[0].at == 1020.0
    assert kept[-1].at == 1000.0 + MOST + 19
