"""The JSON line of the gateway benchmark: specgate's figures flat, each peer's the same nested."""

from collections.abc import Mapping, Sequence

from bench.gateway.figures import (
    ADDED,
    RoundFigures,
    absolute_names,
    added_over,
    over_rounds,
)
from bench.gateway.targets import DIRECT, SPECGATE
from bench.rounds import Json, Summary, put_summary

DEFINITIONS = {
    "added_*": "median over rounds of (through the target - direct) in the same round; "
    "one keep-alive connection, one request after the other",
    "added_first_byte_p50_ms": "first byte of the body of a stream of 4 chunks back to back",
    "added_first_byte_paced_p50_ms": "the same with 5 ms between chunks: every process has slept, "
    "so the machine's wake-up times are in it",
    "added_stream_p50_ms": "100 chunks back to back, first byte sent to last byte received",
    "added_stream_paced_p50_ms": "100 chunks, 5 ms apart",
    "cpu_us_per_chunk": "CPU of the target's process tree, less its idle CPU, per content chunk, "
    "160 streams of 50 chunks a second each (8,000 in all), so that every chunk travels alone; "
    "what a request costs is in it",
    "cpu_us_per_chunk_light": "the same with 40 streams (2,000 a second): mostly the system's cost "
    "of waking a process, which a busier one shares among chunks",
    "cpu_us_per_chunk_saturated": "the same at saturation, where chunks arrive together",
    "chunks_per_second": "32 connections, 100-chunk streams back to back, one after the other; "
    "worker, client and target share the machine's cores",
    "errors": "exchanges of all rounds that were not good, the thousand streams' included",
    "streams_1000_*": "1,000 streams at once, two chunks a second each; the probe is a light unary "
    "request every 50 ms beside them, whole latency: what the target's event loop lags",
}


def report(
    rounds: Mapping[str, Sequence[RoundFigures]],
    *,
    unavailable: Mapping[str, str],
    first_flaws: Mapping[str, str],
) -> Json:
    """Everything that was measured.

    Args:
        rounds: Figures by target, one for each round, `direct` and `specgate` among them.
        unavailable: Peers that were not measured, with the reason.
        first_flaws: The first reason why an exchange was not good, by target.
    """
    direct = rounds[DIRECT]
    peers = {
        name: _figures(direct, figures)
        for name, figures in rounds.items()
        if name not in (DIRECT, SPECGATE)
    }
    return {
        "bench": "gateway",
        **_figures(direct, rounds[SPECGATE]),
        "peers": peers,
        "peers_unavailable": dict(unavailable),
        "direct": {name: _median(over_rounds(direct, name)) for name in _direct_names()},
        "rounds": len(direct),
        "first_flaws": dict(first_flaws),
        "definitions": DEFINITIONS,
    }


def _median(summary: Summary | None) -> float | None:
    return None if summary is None else summary.median


def _direct_names() -> list[str]:
    return [*ADDED, "chunks_per_second", "streams_1000_errors", "streams_1000_probe_p99_ms"]


def _figures(direct: Sequence[RoundFigures], ours: Sequence[RoundFigures]) -> Json:
    found: Json = {}
    for name in ADDED:
        put_summary(found, f"added_{name}", added_over(direct, ours, name))
    for name in absolute_names():
        put_summary(found, name, over_rounds(ours, name))
    found["errors"] = sum(figures.errors for figures in ours)
    return found
