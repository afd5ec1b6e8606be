"""The JSON line of the benchmark, from its parts."""

from collections.abc import Sequence
from functools import reduce
from operator import add

from bench.drift.replay import Part
from bench.rounds import Json, Summary
from engine.training.replay import Acceptance

_FIRST_KIND = "chat"


def report(parts: Sequence[Part], slowdown: Summary, *, after_tokens: int) -> Json:
    """Return acceptance over time, and the ratios that count.

    Args:
        parts: In the order of the workload.
        slowdown: Of an answer beside the trainer, as a share of its time alone.
        after_tokens: Tokens of a new kind after which the adapted head is compared.

    Returns:
        `ratio_adapted_to_static`: the lowest over new kinds, of all parts after so many tokens;
        `worst_ratio_to_static`: of any part; `parts`: acceptance ratios, one after the other.
    """
    kinds: Json = {}
    for kind in dict.fromkeys(part.kind for part in parts):
        of_kind = [part for part in parts if part.kind == kind]
        late, tokens = [], 0
        for part in of_kind:
            tokens += part.tokens
            if tokens >= after_tokens:
                late.append(part)
        late = late or of_kind[-1:]
        kinds[kind] = {
            "static": _total(late, "static").ratio,
            "suffix": _total(late, "suffix").ratio,
            "adapted": _total(late, "adapted").ratio,
            "adapted_to_static": _ratio(late),
        }
    new = [figures["adapted_to_static"] for kind, figures in kinds.items() if kind != _FIRST_KIND]
    return {
        "bench": "drift",
        "ratio_adapted_to_static": min(new),
        "worst_ratio_to_static": min(_ratio([part]) for part in parts),
        "serving_slowdown": slowdown.median,
        "serving_slowdown_spread": [slowdown.low, slowdown.high],
        "kinds": kinds,
        "parts": [
            {
                "kind": part.kind,
                "tokens": part.tokens,
                "static": part.static.ratio,
                "suffix": part.suffix.ratio,
                "adapted": part.adapted.ratio,
                "events": part.event,
            }
            for part in parts
        ],
    }


def _total(parts: Sequence[Part], way: str) -> Acceptance:
    found: Acceptance = reduce(add, (getattr(part, way) for part in parts))
    return found


def _ratio(parts: Sequence[Part]) -> float:
    return _total(parts, "adapted").ratio / _total(parts, "static").ratio
