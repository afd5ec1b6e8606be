"""Fits the initial values of every tenant's calibration; writes them as C++ (core/prior.hpp).

    python -m bench.suffix.fit_prior [--data DIR]   # then build again, to use it

Replays every data set, one after the other, as one tenant's requests. Only values that
do not depend on a tokenizer are written. Their confidence is reduced, so that a tenant's own
outcomes soon count more; by how much was chosen by leaving out one data set at a time (adr/0012).
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from bench.command import add_data
from bench.suffix.corpus import CONFIG, load_corpus, tokenizer_of
from bench.suffix.datasets import Request
from bench.suffix.replay import accepted_of
from engine._core import suffix as _core
from engine.suffix import LONGEST_DRAFT

_HEADER = Path(__file__).parents[2] / "engine/suffix/core/prior.hpp"
_OUTCOMES = 20.0
_DENSE, _STRUCTURED = 20, 408
_SAMPLED = (-0.75, 0.1)  # of the last dense features: the corpus has no sampled text, adr/0012
_KINDS, _LENGTHS = 8, 65
_FIRST_SQUARES = 0.1  # of the dense features; of the others 1
_MOST_DENSE_SQUARES, _MOST_SQUARES = 5.0, 3.0
_MIN_SURVIVAL = 0.05
_MAX_TOKENS = 64
assert _MAX_TOKENS <= LONGEST_DRAFT

Prior = dict[str, float | list[float] | list[list[float]]]


def main() -> int:
    """Write the header."""
    parser = argparse.ArgumentParser(prog="python -m bench.suffix.fit_prior")
    add_data(parser)
    parser.add_argument("--config", type=Path, default=CONFIG)
    arguments = parser.parse_args()
    datasets = load_corpus(arguments.data.resolve(), tokenizer_of(arguments.config))
    prior = fit(request for dataset in datasets for request in dataset.requests)
    _HEADER.write_text(render(prior), encoding="utf-8")
    return 0


def blank() -> Prior:
    """A prior without data: longer matches are more reliable."""
    lengths = [0.3 if n < 1 else 0.45 if n < 3 else 0.7 if n < 8 else 0.85 for n in range(_LENGTHS)]
    return {
        "outcomes": _OUTCOMES,
        "reliability": [lengths] * _KINDS,
        "dense": [1.0] + [0.0] * (_DENSE - 1),
        "dense_squares": [_FIRST_SQUARES] * _DENSE,
        "weights": [0.0] * _STRUCTURED,
        "squares": [1.0] * _STRUCTURED,
    }


def fit(requests: Iterable[Request]) -> Prior:
    """Replay requests as one tenant's that starts from `blank`, and return what it has learnt."""
    index = _core.Index(2**31, 2**31 - 1, 0)
    index.teach("fit", blank())
    for number, request in enumerate(requests):
        name = f"r{number}"
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
    dense, dense_squares, squares = (
        np.array(learnt[key]) for key in ("dense", "dense_squares", "squares")
    )
    dense[-len(_SAMPLED) :] = _SAMPLED
    dense_squares[-len(_SAMPLED) :] = _MOST_DENSE_SQUARES
    return {
        **learnt,
        "outcomes": _OUTCOMES,
        "dense": dense.tolist(),
        "dense_squares": np.minimum(dense_squares, _MOST_DENSE_SQUARES).tolist(),
        "squares": np.minimum(squares, _MOST_SQUARES).tolist(),
    }


def render(prior: Prior) -> str:
    """The header's text."""
    reliability = ",\n".join(_array(row) for row in cast(list[list[float]], prior["reliability"]))
    fields = ",\n".join(
        f"    .{key} = {_array(cast(list[float], prior[key]))}"
        for key in ("dense", "dense_squares", "weights", "squares")
    )
    return f"""// Written by `python -m bench.suffix.fit_prior`, from what adr/0012 says.
#pragma once

#include "calibration.hpp"

namespace specgate::suffix {{

inline constexpr Prior kPrior{{
    .outcomes = {_number(_OUTCOMES)},
    .reliability = {{{{
{reliability}}}}},
{fields}}};

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
