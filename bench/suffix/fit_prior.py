"""Fits the initial values of every tenant's calibration; writes them as C++ (core/prior.hpp).

    python -m bench.suffix.fit_prior --blank        # then build again, so as to start from it
    python -m bench.suffix.fit_prior [--data DIR]   # then build again, to use it

Replays every data set, one after the other, as one tenant's requests. Only values that
do not depend on a tokenizer are written. Their confidence is reduced, so that a tenant's own
outcomes soon count more; by how much was chosen by leaving out one data set at a time (adr/0012).
"""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from bench.command import add_data
from bench.suffix.corpus import CONFIG, load_corpus, tokenizer_of
from bench.suffix.datasets import DataSet
from bench.suffix.replay import accepted_of
from engine._core import suffix as _core
from engine.suffix import LONGEST_DRAFT

_HEADER = Path(__file__).parents[2] / "engine/suffix/core/prior.hpp"
_OUTCOMES = 50.0
_DENSE, _STRUCTURED = 20, 408
_SAMPLED = (-0.75, 0.1)  # of the last dense features: the corpus has no sampled text, adr/0012
_KINDS, _LENGTHS = 8, 65
_FIRST_SQUARES = 0.1  # of the dense features; of the others 1
_MOST_DENSE_SQUARES, _MOST_SQUARES = 5.0, 3.0
_MIN_SURVIVAL = 0.05
_MAX_TOKENS = 64
assert _MAX_TOKENS <= LONGEST_DRAFT

Prior = Mapping[str, Sequence[float] | Sequence[Sequence[float]]]


def main() -> int:
    """Write the header."""
    parser = argparse.ArgumentParser(prog="python -m bench.suffix.fit_prior")
    parser.add_argument("--blank", action="store_true", help="write one that knows nothing")
    add_data(parser)
    parser.add_argument("--config", type=Path, default=CONFIG)
    arguments = parser.parse_args()
    prior = blank()
    if not arguments.blank:
        prior = fit(load_corpus(arguments.data.resolve(), tokenizer_of(arguments.config)))
    _HEADER.write_text(render(prior), encoding="utf-8")
    return 0


def blank() -> Prior:
    """A prior without data: longer matches are more reliable."""
    lengths = [0.3 if n < 1 else 0.45 if n < 3 else 0.7 if n < 8 else 0.85 for n in range(_LENGTHS)]
    return {
        "reliability": [lengths] * _KINDS,
        "dense": [1.0] + [0.0] * (_DENSE - 1),
        "dense_squares": [_FIRST_SQUARES] * _DENSE,
        "weights": [0.0] * _STRUCTURED,
        "squares": [1.0] * _STRUCTURED,
    }


def fit(datasets: Iterable[DataSet]) -> Prior:
    """Replay everything in one index and return what its tenant has learnt."""
    index = _core.Index(2**31, 2**31 - 1, 0)
    for dataset in datasets:
        for number, request in enumerate(dataset.requests):
            name = f"{dataset.name}/{number}"
            index.start(name, "fit", request.prompt, 0.0)
            answer: list[int] = request.answer.tolist()
            index.extend(name, answer[:1])
            at = 1
            while at < len(answer):
                draft = index.propose(name, _MAX_TOKENS, _MIN_SURVIVAL).tokens
                end = at + accepted_of(draft, answer[at : at + len(draft)]) + 1
                index.extend(name, answer[at:end])
                at = end
            index.finish(name, True)
    learnt = index.calibration("fit")
    assert learnt is not None
    dense = np.array(learnt["dense"])
    dense[-len(_SAMPLED) :] = _SAMPLED
    squares = np.minimum(learnt["dense_squares"], _MOST_DENSE_SQUARES)
    squares[-len(_SAMPLED) :] = _MOST_DENSE_SQUARES
    return {
        **learnt,
        "dense": dense.tolist(),
        "dense_squares": squares.tolist(),
        "squares": np.minimum(learnt["squares"], _MOST_SQUARES).tolist(),
    }


def render(prior: Prior) -> str:
    """The header's text."""
    rows = ",\n".join(_array(cast(Sequence[float], row)) for row in prior["reliability"])
    flat = "\n".join(
        f"inline constexpr std::array<float, {len(prior[key])}> {name} = "
        f"{_array(cast(Sequence[float], prior[key]))};"
        for key, name in (
            ("dense", "kPriorDense"),
            ("dense_squares", "kPriorDenseSquares"),
            ("weights", "kPriorWeights"),
            ("squares", "kPriorSquares"),
        )
    )
    return f"""// Written by `python -m bench.suffix.fit_prior`, from what adr/0012 says.
#pragma once

#include <array>

namespace specgate::suffix {{

inline constexpr float kPriorOutcomes = {_number(_OUTCOMES)};
inline constexpr std::array<std::array<float, {_LENGTHS}>, {_KINDS}> kPriorReliability = {{{{
{rows}}}}};
{flat}

}}  // namespace specgate::suffix
"""


def _array(values: Sequence[float]) -> str:
    numbers = [_number(value) for value in values]
    lines = [", ".join(numbers[at : at + 12]) for at in range(0, len(numbers), 12)]
    return "{" + ",\n    ".join(lines) + "}"


def _number(value: float) -> str:
    text = f"{value:.4g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


if __name__ == "__main__":
    sys.exit(main())
