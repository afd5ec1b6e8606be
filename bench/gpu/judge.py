"""Judgements on what servers answered and logged."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.rounds import Json

NEAR_TIE = 0.25
"""Largest gap between the two likeliest tokens' log probabilities that rounding may turn around.

bfloat16 has steps of 0.125 between 16 and 32, where the greatest logits are.
"""

_ROW = re.compile(r"\|\s*(\d+)\s*\|\s*(\d+)\s*\|\s*(\d+)\s*\|\s*(\w+)\s*\|\s*(\d+)\s*\|")
"""A row of vLLM's table: tokens, tokens with padding, padding, mode, how often."""


@dataclass(frozen=True, slots=True)
class Text:
    """A greedy text.

    Attributes:
        tokens: Its ids.
        gaps: At each position, by how much the likeliest token was above the second.
    """

    tokens: Sequence[int]
    gaps: Sequence[float]

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> "Text":
        """Read a completion with `logprobs: 2` and `return_token_ids`."""
        (choice,) = answer["choices"]
        gaps = []
        for likeliest in choice["logprobs"]["top_logprobs"]:
            first, second = sorted(likeliest.values(), reverse=True)[:2]
            gaps.append(first - second)
        return cls(choice["token_ids"], gaps)


def compare(plain: Sequence[Text], others: Sequence[Sequence[int]]) -> Json:
    """Compare texts with those of vLLM alone: equal, apart at a near-tie, or wrong."""
    verdicts = Counter(map(_verdict, plain, others))
    return {
        "texts": len(plain),
        "equal": verdicts["equal"],
        "near_ties": verdicts["near tie"],
        "defects": verdicts["defect"],
    }


def _verdict(plain: Text, other: Sequence[int]) -> str:
    if list(plain.tokens) == list(other):
        return "equal"
    pairs = zip(plain.tokens, other, strict=False)
    at = next((at for at, (one, two) in enumerate(pairs) if one != two), None)
    if at is None:  # one ends where the other goes on
        at = min(len(plain.tokens), len(other))
    return "near tie" if at < len(plain.gaps) and plain.gaps[at] <= NEAR_TIE else "defect"


def read_dispatch(log: Iterable[str]) -> Json:
    """Sum up vLLM's tables of CUDA graphs, of a log with `cudagraph_metrics`.

    Returns:
        Steps; the share of each mode; tokens with padding over tokens, of steps in graphs. Nothing
        but the number of steps, 0, if vLLM logged no table.
    """
    modes = Counter[str]()
    real = padded = 0
    for line in log:
        if found := _ROW.search(line):
            tokens, with_padding, _, mode, times = found.groups()
            modes[mode] += int(times)
            if mode != "NONE":
                real += int(tokens) * int(times)
                padded += int(with_padding) * int(times)
    steps = sum(modes.values())
    if not steps:
        return {"steps": 0}
    shares = {mode.lower(): count / steps for mode, count in sorted(modes.items())}
    return {"steps": steps, "share": shares, "padded_over_real": padded / real if real else None}
