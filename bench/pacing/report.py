"""The JSON line of the pacing benchmark: figures over all rounds, by mode and pattern. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from bench.pacing.best import best_gaps
from bench.pacing.bound import least_ratio, least_ratio_unheaped
from bench.pacing.compare import added, evenness, long_enough, pairs_of, uneven
from bench.pacing.crowd import CrowdFigures
from bench.pacing.figures import Gaps, Played, percentile
from bench.pacing.plan import BOUND_MS, MODES, THOUSAND, Mode
from bench.pacing.privacy import Attack
from bench.pacing.round import Playback
from bench.rounds import Json, put_summary, summary_of

UNEVEN_RATIO = 5.0
"""A worker's stream with this p99 over median, or more, is uneven: pacing has work to do."""
EVEN_RATIO = 2.0
"""A client's stream with this p99 over median, or less, is even."""

DEFINITIONS = {
    "delay": "of a token: time of the client's read of its last character less time of the "
    "worker's write of its chunk. added: less the same of the same token without pacing in the "
    "same round. Both clocks are CLOCK_MONOTONIC of one machine",
    "added_first_token_ms_p99": "p99 over streams of the delay of the first text, less the same "
    "p99 without pacing; median and [min, max] over rounds, as for all figures",
    "added_first_token_ms_paired_p99": "p99 of the differences stream by stream, with the noise "
    "of both plays",
    "added_delay_ms_*": "over all tokens of all streams, recorded and made up",
    "end_delay_ms_*": "time of the client's last packet less time of the worker's last write, "
    "less the same without pacing, stream by stream",
    "control": "the same figures of a second play without pacing: the noise of the machine",
    "gap per token": "a piece of n tokens that arrives g ms after the piece before is n gaps of "
    "g/n; pieces within 1 ms are one. n is whole and at least 1; at the client, a piece has as "
    "many tokens as its share of the chunk's characters. Percentiles and variation (standard "
    "deviation over mean) are of one stream; reported is the median over streams of 50 tokens or "
    "more",
    "gap per character": "the same with characters: n is exact, but a worker that sends token by "
    "token at a constant rate is uneven by it, since tokens differ in length",
    "gap per piece": "the same with each piece as one gap of g, whatever its size",
    "gap_p99_over_median_*": "per token, over the recorded streams with a ratio of 5 or more at "
    "the worker; `gap_streams` has how many of how many, `gap_streams_even` how many of them have "
    "2 or less at the client. `by_pattern` has all kinds and gaps",
    "gap_ratio_smoothest": "the same of the smoothest release within the bound (the end: 50 ms) "
    "with knowledge of all that follows: a taut string, token by token. No release varies less, "
    "but some have a lower ratio. `by_pattern` has it as `best`",
    "gap_ratio_least_possible": "proven: no release of such a stream within the same bounds has a "
    "lower ratio, token by token or in pieces. Each pattern counts once a round. It is low where "
    "nearly half of the tokens can leave at once, so that the median is a gap of the others",
    "gap_ratio_least_possible_unheaped": "proven: no release whose median is at most its mean "
    "(the stream's own mean) has a lower ratio",
    "gap_streams_never_even": "for how many of these streams no release has a ratio of 2 or less, "
    "for how many no unheaped one has, and the number of streams",
    "by_pattern": "chat-8: recorded chat with 8 concurrent clients. Made up: steady, bursts (1-16 "
    "tokens every 40 ms), slow-bursts (every 170 ms), stalls (1 s, every 75 tokens), ramps (a "
    "quarter to four times the rate); all but bursts have 50 tokens a second on average",
    "crowds": "streams of 50 tokens a second each; 100 start per second (QUICK: 200) until all "
    "run. Chunks are those of a worker that drafts, with the recorded mean of `tokens_per_chunk`; "
    "100 streams with one gateway process, 1,000 with one and with two",
    "cpu_us_per_token": "CPU of the gateway's processes, less their CPU when idle, per token that "
    "the worker sent",
    "streams_1000_cpu_cores": "CPU of the gateway's processes (two) while all 1,000 streams ran",
    "streams_1000_late_ms_p99": "p99 over streams of how far the latest token of each was beyond "
    "the bound; nothing is subtracted, so it includes the machine's own lateness (see `off`)",
    "harness_cores": "worker and client together; the machine is saturated when this plus `cores` "
    "is near its number of cores",
    "attacker_accuracy_*": "share of answers that a classifier recognises from times (after the "
    "request) and sizes of the packets, trained on the other runs, with the group of features "
    "below that was best in training; mean and [min, max] over folds. raw: pacing off",
    "attackers": "the same with one group of features: sizes, borders (where in the text packets "
    "end), early (the same of its beginning), times, totals (packets, bytes, length, time to the "
    "first), or all together",
    "gateway_metric_ms": "mean delay that the gateway's own metric reports for a token",
    "bound_ms": "max_delay_ms",
}

Rounds = Sequence[Mapping[Mode, Playback]]
Crowds = Mapping[str, Sequence[Mapping[Mode, CrowdFigures | None]]]
"""By gathering, for each round."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that was measured.

    Attributes:
        rounds: All patterns in each mode.
        crowds: Many streams at once.
        crowd_flaws: Why streams of a crowd failed.
        tokens_per_chunk: Mean of the recorded patterns.
        attack: None when it could not be made; `attack_failure` says why.
    """

    rounds: Rounds
    crowds: Crowds
    crowd_flaws: Sequence[str]
    tokens_per_chunk: float
    attack: Attack | None
    attack_failure: str | None


def report(measured: Measured) -> Json:
    """Compute every figure."""
    rounds = measured.rounds
    flaws = [flaw for each in rounds for playback in each.values() for flaw in playback.flaws]
    flaws += measured.crowd_flaws
    flaws += measured.attack.flaws if measured.attack else []
    found: Json = {"bench": "pacing"}
    smooth = _added(rounds, "smooth")
    names = {
        "added_first_token_ms_p99": "first_token_ms_p99",
        "added_first_token_ms_paired_p99": "first_token_ms_paired_p99",
        "added_delay_ms_p50": "delay_ms_p50",
        "added_delay_ms_p99": "delay_ms_p99",
        "added_delay_ms_max": "delay_ms_max",
        "end_delay_ms_p50": "end_ms_p50",
        "end_delay_ms_p99": "end_ms_p99",
    }
    for name, figure in names.items():
        found[name], found[f"{name}_spread"] = smooth[figure], smooth[f"{figure}_spread"]
    found |= _headline_gaps(rounds)
    found |= _crowd_headline(measured.crowds)
    found |= _attacker(measured)
    modes = [mode for mode in MODES if mode != "off" and any(mode in each for each in rounds)]
    return found | {
        "modes": {mode: _added(rounds, mode) for mode in modes},
        "by_pattern": _by_pattern(rounds),
        "crowds": {name: _crowd(each) for name, each in measured.crowds.items()},
        "tokens_per_chunk": measured.tokens_per_chunk,
        "bound_ms": BOUND_MS,
        "streams_compared": sum(len(each["off"].good) for each in rounds),
        "rounds": len(rounds),
        "errors": len(flaws),
        "first_flaws": flaws[:3],
        "definitions": DEFINITIONS,
    }


def _added(rounds: Rounds, mode: Mode, kind: str | None = None) -> Json:
    each_round = []
    for each in rounds:
        pairs = pairs_of(each["off"].played, each[mode].played)
        if kind is not None:
            pairs = [pair for pair in pairs if pair[0].pattern.kind == kind]
        each_round.append(asdict(added(pairs)))
    found = _over_rounds(each_round)
    if kind is None:
        says = [value for each in rounds if (value := each[mode].metric_ms) is not None]
        metric = summary_of(says)
        found["gateway_metric_ms"] = None if metric is None else metric.median
    return found


def _headline_gaps(rounds: Rounds) -> Json:
    each_round = []
    recorded = 0
    streams: list[Played] = []
    bounds: list[_Bound] = []
    for each in rounds:
        judged = [one for one in long_enough(each["smooth"].good) if is_recorded(one.pattern.kind)]
        recorded += len(judged)
        judged = uneven(judged, UNEVEN_RATIO)
        streams += judged
        sent = evenness([one.worker_gaps() for one in judged])
        got = evenness([one.client_gaps() for one in judged])
        best = evenness([best_gaps(one) for one in judged])
        least = _bounds(judged)
        bounds += least
        each_round.append(
            {
                "gap_p99_over_median_worker": sent.token_ratio,
                "gap_p99_over_median_client": got.token_ratio,
                "gap_ratio_smoothest": best.token_ratio,
                "gap_ratio_least_possible": _median([one.ratio for one in least]),
                "gap_ratio_least_possible_unheaped": _median([one.unheaped for one in least]),
                "gap_variation_worker": sent.token_variation,
                "gap_variation_client": got.token_variation,
                "gap_variation_best": best.token_variation,
            }
        )
    ratios = [one.client_gaps().ratio("token") for one in streams]
    even = [ratio for ratio in ratios if ratio is not None and ratio <= EVEN_RATIO]
    return _over_rounds(each_round) | {
        "gap_streams": [len(streams), recorded],
        "gap_streams_even": [len(even), len(streams)],
        "gap_streams_never_even": [
            sum(one.ratio > EVEN_RATIO for one in bounds),
            sum(one.unheaped > EVEN_RATIO for one in bounds),
            len(bounds),
        ],
    }


@dataclass(frozen=True, slots=True)
class _Bound:
    """Lower bounds of a stream's ratio; `unheaped`: for releases without heaps."""

    ratio: float
    unheaped: float


def _bounds(streams: Sequence[Played]) -> list[_Bound]:
    """Of one play of each pattern."""
    once = {one.pattern.name: one for one in streams}.values()
    return [_Bound(least_ratio(one), least_ratio_unheaped(one)) for one in once]


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


def is_recorded(kind: str) -> bool:
    """Whether patterns of a kind are recorded; those kinds end in the number of clients."""
    return kind.rpartition("-")[2].isdigit()


def _by_pattern(rounds: Rounds) -> Json:
    kinds = dict.fromkeys(one.pattern.kind for each in rounds for one in each["off"].good)
    found: Json = {}
    for kind in kinds:
        sides: dict[str, Json] = {}
        for mode in ("off", "smooth", "private"):
            judged = [
                [one for one in long_enough(each[mode].good) if one.pattern.kind == kind]
                for each in rounds
                if mode in each
            ]
            if mode == "off":
                sides["worker"] = _even([[one.worker_gaps() for one in r] for r in judged])
                sides["best"] = _even([[best_gaps(one) for one in r] for r in judged])
            if judged:
                sides[mode] = _even([[one.client_gaps() for one in r] for r in judged])
                sides[mode] |= {} if mode == "off" else _added(rounds, mode, kind)
        found[kind] = sides
    return found


def _even(rounds: Sequence[Sequence[Gaps]]) -> Json:
    return _over_rounds([asdict(evenness(gaps)) for gaps in rounds])


def _over_rounds(rounds: Sequence[Mapping[str, float | None]]) -> Json:
    found: Json = {}
    for name in rounds[0]:
        known = [value for each in rounds if (value := each[name]) is not None]
        put_summary(found, name, summary_of(known))
    return found


def _crowd(rounds: Sequence[Mapping[Mode, CrowdFigures | None]]) -> Json:
    found: Json = {}
    for mode in MODES:
        known = [figures for each in rounds if (figures := each.get(mode)) is not None]
        if not known:
            continue
        inner: Json = {}
        names = ("cores", "harness_cores", "tokens_per_second", "chunks_per_second")
        for name in (*names, "cpu_us_per_token"):
            put_summary(inner, name, summary_of([getattr(each, name) for each in known]))
        put_summary(inner, "worst_delay_ms_p99", summary_of([_worst(each) for each in known]))
        inner["errors"] = sum(each.errors for each in known)
        found[mode] = inner
    return found


def _worst(figures: CrowdFigures) -> float:
    worst = percentile(np.array(figures.worst_delay_ms), 0.99)
    assert worst is not None, "a crowd without streams has no figures"
    return worst


def _crowd_headline(crowds: Crowds) -> Json:
    rounds = crowds.get(THOUSAND, [])
    known = [figures for each in rounds if (figures := each.get("smooth")) is not None]
    found: Json = {}
    put_summary(found, "streams_1000_cpu_cores", summary_of([each.cores for each in known]))
    late = [max(0.0, _worst(each) - BOUND_MS) for each in known]
    put_summary(found, "streams_1000_late_ms_p99", summary_of(late))
    return found


def _attacker(measured: Measured) -> Json:
    attack = measured.attack
    if attack is None:
        return {"attacker_failure": measured.attack_failure}
    found: Json = {}
    for name, groups in attack.accuracy.items():
        found[f"attacker_accuracy_{name}"] = _mean(groups["best"])
        found[f"attacker_accuracy_{name}_spread"] = [min(groups["best"]), max(groups["best"])]
    return found | {
        "attacker_chance": attack.chance,
        "attackers": {
            name: {group: _mean(folds) for group, folds in groups.items()}
            for name, groups in attack.accuracy.items()
        },
        "attacker_prompts": attack.prompts,
        "attacker_answers": attack.answers,
    }


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
