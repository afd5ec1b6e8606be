"""`make bench-graphs`: which CUDA graphs vLLM would choose for our steps.

    python -m bench.gpu.graphs [--quick]

The shapes of steps come from the simulator, with the gate on a GPU's cost curve. They are given to
vLLM's own dispatcher, with the graphs that our worker has it capture where the attention backend
can replay steps of any lengths, and with vLLM's default sizes. Nothing is captured, so no GPU is
needed. The last line on stdout is one JSON object: for each traffic and load the share of steps
that run as one graph (`full`), the same among steps that read no prompt (`decoding_full`), and how
many tokens those compute for each that is needed (`padded`).
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from vllm.config.compilation import CUDAGraphMode
from vllm.v1.worker.gpu import cudagraph_utils
from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager

from bench.command import new_parser, print_line
from bench.gate_sim.bench import library_of
from bench.gate_sim.plan import CHAT_TRAFFIC, CURVES, EDIT_TRAFFIC, Traffic
from bench.rounds import Json
from engine.simulation.course import Stage, course_of
from engine.simulation.curve import CurveError, load_curve
from engine.simulation.engine import World, simulate
from engine.simulation.rule import Decision, Outcome, View
from engine.simulation.specgate import Specgate
from loadtest.progress import say

_CURVE = "gpu-8b-captured"
_LOADS = (1, 8, 64, 256)
_MOST_REQUESTS, _LONGEST_DRAFT = 256, 32
_LARGEST = 512
"""Tokens of vLLM's largest graph by default, and most rows of a step (engine/worker/rows.py)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A step.

    Attributes:
        requests: How many are in it.
        tokens: All that it computes.
        longest: Most tokens of a request; None if a prompt is read.
    """

    requests: int
    tokens: int
    longest: int | None


@dataclass(slots=True)
class Recording:
    """The gate, and the shapes of the steps that it had computed."""

    gate: Specgate
    shapes: list[Shape] = field(default_factory=list)

    def decide(self, view: View) -> Decision:
        """Decide as the gate does."""
        return self.gate.decide(view)

    def observe(self, view: View, decision: Decision, outcome: Outcome) -> None:
        """Record the step."""
        decoding, reading = view.decoding.sum(1), view.prefilling.sum(1)
        longest = 1 + decision.lengths.max(1)
        for lane in range(len(decoding)):
            reads = bool(reading[lane])
            self.shapes.append(
                Shape(
                    int(decoding[lane] + reading[lane]),
                    int(outcome.tokens[lane]),
                    None if reads else int(longest[lane]),
                )
            )
        self.gate.observe(view, decision, outcome)


def manager(*, requests: int = _MOST_REQUESTS, longest_draft: int = _LONGEST_DRAFT) -> Any:
    """Return vLLM's dispatcher as our worker has it on a GPU, without graphs.

    Args:
        requests: Most in a step.
        longest_draft: Most tokens of a draft.
    """
    sizes = sorted({1, 2, 4, *range(8, 256, 8), *range(256, _LARGEST + 1, 16)})
    config = SimpleNamespace(
        scheduler_config=SimpleNamespace(max_num_seqs=requests),
        compilation_config=SimpleNamespace(
            cudagraph_capture_sizes=sizes, max_cudagraph_capture_size=_LARGEST
        ),
        parallel_config=SimpleNamespace(tensor_parallel_size=1),
        cache_config=SimpleNamespace(use_kda_recoverssm=False),
        speculative_config=None,
    )
    alone = SimpleNamespace(is_first_rank=True, is_last_rank=True)
    with (
        patch.object(cudagraph_utils, "get_pp_group", lambda: alone),
        patch.object(cudagraph_utils, "is_breakable_cudagraph_enabled", lambda: False),
        patch.object(
            cudagraph_utils,
            "current_platform",
            SimpleNamespace(get_global_graph_pool=lambda: None),
        ),
    ):
        found: Any = CudaGraphManager(
            config,
            None,
            CUDAGraphMode.FULL_AND_PIECEWISE,
            1 + longest_draft,
            varlen_decode=True,
        )
    found._graphs_captured = True
    return found


def dispatch(to: Any, shapes: list[Shape]) -> Json:
    """Give steps to vLLM's dispatcher; see the module."""
    modes: list[tuple[bool, bool]] = []
    computed = needed = 0
    for shape in shapes:
        uniform = None
        if shape.longest is not None and shape.longest * shape.requests == shape.tokens:
            uniform = shape.longest
        graph = to.dispatch(shape.requests, shape.tokens, uniform, 0, shape.longest)
        is_full = graph.cg_mode == CUDAGraphMode.FULL
        modes.append((shape.longest is not None, is_full))
        if shape.longest is not None:
            computed += graph.num_tokens
            needed += shape.tokens
    decoding = [is_full for decodes, is_full in modes if decodes]
    return {
        "steps": len(modes),
        "full": float(np.mean([is_full for _, is_full in modes])),
        "decoding_full": float(np.mean(decoding)) if decoding else None,
        "padded": computed / needed if needed else None,
    }


def main() -> int:
    """Print one JSON line."""
    parser = new_parser("graphs")
    arguments = parser.parse_args()
    return print_line(lambda: _measure(quick=arguments.quick), (CurveError, OSError))


def _measure(*, quick: bool) -> Json:
    graphs = manager()
    cells: Json = {}
    for traffic, load in product((CHAT_TRAFFIC, EDIT_TRAFFIC), _LOADS[:2] if quick else _LOADS):
        shapes = list(_shapes(traffic, load, tokens_a_seat=200 if quick else 400))
        cells[f"{traffic.name}/{load}"] = found = dispatch(graphs, shapes)
        say(f"{traffic.name}/{load}: {found}")
    return {"bench": "graphs", "cells": cells}


def _shapes(traffic: Traffic, load: int, *, tokens_a_seat: int) -> Iterator[Shape]:
    course = course_of([Stage(max(tokens_a_seat, 4_000 // load), load)])
    world = World(load_curve(CURVES / f"{_CURVE}.yaml"), library_of(traffic, 1, ()), course)
    rule = Recording(Specgate(world, 1, traffic.source, most_rows=_LARGEST))
    simulate(world, rule, np.arange(1))
    yield from rule.shapes


if __name__ == "__main__":
    sys.exit(main())
