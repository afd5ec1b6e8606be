"""The figures are what their definitions say, and have no value where there is none."""

from dataclasses import replace

import pytest

from bench.client import Exchange
from bench.gateway.figures import added_over, figures_of, flaws_of, over_rounds, percentile_ms
from bench.gateway.plan import QUICK
from bench.gateway.probes import CrowdReadings, Readings
from bench.gateway.report import report
from bench.gateway.round import RoundReadings, Spent

MS = 1_000_000


def readings_of(*, whole_ms: float, first_byte_ms: float = 1.0, count: int = 4) -> Readings:
    packets = [(int(first_byte_ms * MS), b"first"), (int(whole_ms * MS), b"last")]
    exchange = Exchange(sent_ns=0, packets=packets)
    return Readings(exchanges=[exchange] * count, began_ns=0, ended_ns=1_000 * MS)


def crowd_of(streams: Readings) -> CrowdReadings:
    probes = readings_of(whole_ms=2.0)
    return CrowdReadings(streams=streams, probes=probes, resident_bytes=[1, 50 * 2**20, 2])


def a_round(*, unary_ms: float = 1.0, with_crowd: bool = True) -> RoundReadings:
    return RoundReadings(
        unary=readings_of(whole_ms=unary_ms),
        short=readings_of(whole_ms=3.0, first_byte_ms=0.5),
        short_paced=readings_of(whole_ms=30.0, first_byte_ms=0.75),
        burst=readings_of(whole_ms=5.0),
        paced=readings_of(whole_ms=500.0),
        light=crowd_of(readings_of(whole_ms=1.0, count=2)),
        loaded=crowd_of(readings_of(whole_ms=1.0, count=10)),
        saturation=readings_of(whole_ms=1.0, count=50),
        crowd=crowd_of(readings_of(whole_ms=1.0)) if with_crowd else None,
        idle_spent=Spent(cpu_ns=10 * MS, elapsed_ns=1_000 * MS),
        light_spent=Spent(cpu_ns=30 * MS, elapsed_ns=1_000 * MS),
        loaded_spent=Spent(cpu_ns=60 * MS, elapsed_ns=1_000 * MS),
        saturation_spent=Spent(cpu_ns=1_020 * MS, elapsed_ns=2_000 * MS),
    )


@pytest.mark.parametrize(("ratio", "expected"), [(0.5, 2.0), (0.99, 4.0), (1.0, 4.0), (0.0, 1.0)])
def test_percentile_is_the_nearest_rank(ratio: float, expected: float) -> None:
    assert percentile_ms([4 * MS, 1 * MS, 3 * MS, 2 * MS], ratio) == expected


def test_percentile_of_nothing_has_no_value() -> None:
    assert percentile_ms([], 0.5) is None


def test_cpu_per_chunk_leaves_out_the_idle_share() -> None:
    figures = figures_of(a_round(), QUICK)

    # 10 streams of 50 chunks cost 60 ms, of which the process would have spent 10 ms anyway.
    assert QUICK.steady.chunks == 50
    assert figures.cpu_us_per_chunk == pytest.approx(100.0)
    assert figures.cpu_us_per_chunk_light == pytest.approx(200.0)
    assert figures.cpu_us_per_chunk_saturated == pytest.approx(200.0)


def test_crowd_figures_are_the_peak_and_the_probes() -> None:
    figures = figures_of(a_round(), QUICK)

    assert figures.streams_1000_rss_mb == 50.0
    assert figures.streams_1000_probe_p50_ms == 2.0
    assert figures.streams_1000_errors == 0


def test_round_without_a_crowd_has_no_crowd_figures() -> None:
    figures = figures_of(a_round(with_crowd=False), QUICK)

    assert figures.streams_1000_errors is None
    assert figures.streams_1000_rss_mb is None


def test_failed_exchanges_give_no_figure_and_are_counted() -> None:
    broken = replace(a_round(), unary=Readings(flaws=["status 500"] * 2))

    figures = figures_of(broken, QUICK)

    assert figures.unary_p50_ms is None
    assert figures.errors == 2
    assert flaws_of(broken) == ["status 500", "status 500"]


def test_added_is_the_median_of_differences_within_a_round() -> None:
    direct = [figures_of(a_round(unary_ms=ms), QUICK) for ms in (1.0, 2.0, 3.0)]
    ours = [figures_of(a_round(unary_ms=ms), QUICK) for ms in (1.5, 2.25, 9.0)]

    added = added_over(direct, ours, "unary_p50_ms")

    assert added is not None
    assert added.median == pytest.approx(0.5)
    assert (added.low, added.high) == pytest.approx((0.25, 6.0))


def test_figure_that_no_round_has_is_none() -> None:
    rounds = [figures_of(a_round(with_crowd=False), QUICK)]

    assert over_rounds(rounds, "streams_1000_rss_mb") is None


def test_report_has_the_promised_keys_with_their_spreads() -> None:
    rounds = [figures_of(a_round(), QUICK)]
    everybody = {"direct": rounds, "specgate": rounds, "vllm-router": rounds}

    found = report(everybody, unavailable={"litellm": "no network"}, first_flaws={})

    promised = {
        *("added_unary_p50_ms", "added_unary_p99_ms", "added_first_byte_p50_ms"),
        *("added_stream_p50_ms", "cpu_us_per_chunk", "chunks_per_second"),
        *("streams_1000_errors", "streams_1000_rss_mb"),
    }
    assert found["bench"] == "gateway"
    for figures in (found, found["peers"]["vllm-router"]):
        assert promised <= figures.keys()
        assert {f"{name}_spread" for name in promised} <= figures.keys()
    assert found["errors"] == 0
    assert found["peers_unavailable"] == {"litellm": "no network"}


def test_report_adds_up_the_errors_of_all_rounds() -> None:
    broken = figures_of(replace(a_round(), unary=Readings(flaws=["status 500"])), QUICK)

    found = report(
        {"direct": [broken] * 3, "specgate": [broken] * 3}, unavailable={}, first_flaws={}
    )

    assert found["errors"] == 3
    assert found["added_unary_p50_ms"] is None
