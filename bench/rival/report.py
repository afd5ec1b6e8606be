"""The JSON line of the contest: specgate over the best rival on each prompt."""

import statistics
from collections.abc import Mapping, Sequence

from bench.rival.contest import SPECGATE, Figures
from bench.rounds import Json, put_summary, ratios_of, summary_of

DEFINITIONS = {
    "tokens_per_second": "output tokens over the time from the request to the whole answer, prompt "
    "included, through HTTP, one request at a time; median over prompts",
    "ratio_to_best": "specgate over the fastest other server on the same prompt; median, with the "
    "least and the greatest. Favours the others, of which the best counts each time",
    "ratio_to": "the same over each other server",
    "faster_on": "prompts on which specgate was faster than all others, and how many there were",
    "creative": "chats at temperature 1: each server samples an answer of its own",
    "memory_mb": "PSS of all processes of a server after the last answer; specgate's has room for "
    "keys and values as its profile says",
    "start_seconds": "from the command until it can serve; the model was downloaded before",
    "left_out": "kinds of prompts for which there was no time; [] if none",
}


def report(figures: Figures) -> Json:
    """Compute every figure."""
    return {
        "bench": "rival",
        "kinds": {kind: _describe(speeds) for kind, speeds in figures.speeds.items()},
        "memory_mb": {name: taken / 1e6 for name, taken in figures.memory_bytes.items()},
        "start_seconds": dict(figures.start_seconds),
        "left_out": figures.left_out,
        "definitions": DEFINITIONS,
    }


def _describe(speeds: Mapping[str, Sequence[float]]) -> Json:
    ours = speeds[SPECGATE]
    others = {name: found for name, found in speeds.items() if name != SPECGATE}
    best = [max(each) for each in zip(*others.values(), strict=True)]
    ratios = ratios_of(ours, best)
    found: Json = {}
    put_summary(found, "ratio_to_best", summary_of(ratios))
    found["faster_on"] = [sum(ratio > 1.0 for ratio in ratios), len(ratios)]
    found["ratio_to"] = {
        name: statistics.median(ratios_of(ours, theirs)) for name, theirs in others.items()
    }
    found["tokens_per_second"] = {name: statistics.median(of) for name, of in speeds.items()}
    return found
