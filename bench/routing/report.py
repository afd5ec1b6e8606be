"""What `make bench-routing` reports of the simulation."""

from collections.abc import Mapping

from bench.rounds import Json
from bench.routing.plan import (
    FIRST_SECONDS,
    ORACLE,
    OURS,
    REQUESTS_PER_SECOND,
    RULES,
    TOKEN_SECONDS,
    Cell,
)
from bench.routing.simulate import Figures

_DECIDED = 256

_DEFINITIONS = {
    "goodput": "answer tokens of requests whose first token came within "
    f"{FIRST_SECONDS:g} s and whose others took {TOKEN_SECONDS:g} s each at most, in the mean",
    "goodput_to_oracle": "over that of the oracle in the same scenario; the worst of all scenarios "
    "and numbers of replicas",
    "max_over_mean": "requests at the most loaded worker over the mean, both averaged over time; "
    "of workers that nothing happened to, slow ones included; the worst likewise",
    "oracle": "knows the true state of every worker at once, and the length of the answer; greedy: "
    "it knows nothing of what comes",
    "load": f"{REQUESTS_PER_SECOND} requests per second and worker, in an open loop; with several "
    "replicas each request goes to any of them",
    "decide_us_256": "median time of a choice with 256 workers, on this processor; without hashing "
    "the prompt and noting the choice",
}


def report(found: Mapping[Cell, Figures]) -> Json:
    """Put all figures into one object."""
    sizes = sorted({cell.workers for cell in found})
    decided = [one.decide_us for cell, one in found.items() if cell.workers == _DECIDED]
    of_ours = [one for one in decided if one is not None]
    return {
        "sim": {str(size): {rule: _worst(found, size, rule) for rule in RULES} for size in sizes},
        "decide_us_256": min((one[0] for one in of_ours), default=None),
        "decide_us_256_p99": min((one[1] for one in of_ours), default=None),
        "cells": {str(size): _cells(found, size) for size in sizes},
        "sim_definitions": _DEFINITIONS,
    }


def _oracle_of(found: Mapping[Cell, Figures], cell: Cell) -> Figures:
    return next(
        one
        for other, one in found.items()
        if (other.workers, other.scenario, other.rule) == (cell.workers, cell.scenario, ORACLE)
    )


def _worst(found: Mapping[Cell, Figures], size: int, rule: str) -> Json:
    cells = [cell for cell in found if (cell.workers, cell.rule) == (size, rule)]
    loads = [load for cell in cells if (load := found[cell].max_over_mean) is not None]
    return {
        "goodput_to_oracle": min(
            found[cell].good_tokens / _oracle_of(found, cell).good_tokens for cell in cells
        ),
        "max_over_mean": max(loads),
        "prefix_hit": min(found[cell].prefix_hit for cell in cells),
        "first_ms_p99": max(found[cell].first_ms[1] for cell in cells),
    }


def _cells(found: Mapping[Cell, Figures], size: int) -> Json:
    """Scenario and replicas, then rule."""
    nested: Json = {}
    for cell, one in found.items():
        if cell.workers != size:
            continue
        figures = {
            "goodput_to_oracle": one.good_tokens / _oracle_of(found, cell).good_tokens,
            "max_over_mean": one.max_over_mean,
            "prefix_hit": one.prefix_hit,
            "first_ms_p50": one.first_ms[0],
            "first_ms_p99": one.first_ms[1],
        }
        if cell.rule == OURS:
            figures["expected_to_seen"] = one.expected_to_seen
        nested.setdefault(f"{cell.scenario}/{cell.replicas}", {})[cell.rule] = figures
    return nested
