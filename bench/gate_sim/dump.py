"""Speeds of every cell in a file, to compare two versions of the policy."""

from collections.abc import Iterable, Mapping

import numpy as np

from bench.gate_sim.bench import Finding
from bench.rounds import Json

Speeds = Mapping[str, Mapping[str, list[float]]]
"""By cell and rule, tokens a second of a request; one for each seed."""

_NAMED = 10


def dumped(findings: Iterable[Finding]) -> Speeds:
    """The speeds of every rule in every cell."""
    return {
        one.cell: {rule: speed.tolist() for rule, speed in one.result.speeds.items()}
        for one in findings
    }


def compared(before: Speeds, after: Speeds) -> Json:
    """How much faster the rule under test has become, in the cells that both have.

    Ratios are means over seeds, after over before; both had the same seeds.
    """
    ratios = {
        cell: float(np.mean(np.array(after[cell]["specgate"]) / before[cell]["specgate"]))
        for cell in after
        if cell in before
    }
    ranked = dict(sorted(ratios.items(), key=lambda item: item[1]))
    names = list(ranked)
    return {
        "cells": len(ranked),
        "mean_ratio": float(np.mean(list(ranked.values()))) if ranked else None,
        "slowest": {name: ranked[name] for name in names[:_NAMED]},
        "fastest": {name: ranked[name] for name in names[: -_NAMED - 1 : -1]},
    }
