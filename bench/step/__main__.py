"""`make bench-step`: reading the weights, products, forward pass and whole step on this CPU.

    python -m bench.step [--quick] [--threads N]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import httpx
import torch

from bench.command import look_at_machine, new_parser, print_line
from bench.rounds import Json
from bench.step.measure import StepFigures, measure
from bench.step.model import StepModel, kernels_here
from bench.step.plan import FULL, QUICK, SMOLLM2_135M, Plan
from bench.step.report import report
from bench.step.service import ServiceError, running_service
from engine.processor import describe_processor
from loadtest.machine import Machine
from loadtest.processes import StartError
from loadtest.progress import say


class NoKernelError(Exception):
    """The processor has none of our kernels."""


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = new_parser("step")
    parser.add_argument("--threads", type=_threads, default=2, help="of all parts (2)")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    return print_line(
        lambda: _run(plan, arguments.threads),
        (NoKernelError, MemoryError, ServiceError, StartError, httpx.HTTPError),
    )


def _threads(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("at least 1 thread")
    return count


def _run(plan: Plan, threads: int) -> Json:
    kernels = kernels_here()
    if not kernels:
        raise NoKernelError("this processor has neither AVX2 with FMA nor AVX-512")
    torch.set_num_threads(threads)
    most_tokens = max(plan.contexts) + max(plan.rows)
    models = []
    for kernel in kernels:
        say(f"packing the weights for {kernel}")
        models.append(StepModel(SMOLLM2_135M, kernel, most_tokens=most_tokens))
    machine, figures = asyncio.run(_beside_a_service(plan, models))
    return {
        **report(figures),
        "threads": threads,
        "processor": describe_processor(),
        "machine": machine.as_json(),
    }


async def _beside_a_service(plan: Plan, models: Sequence[StepModel]) -> tuple[Machine, StepFigures]:
    machine = await look_at_machine()
    with tempfile.TemporaryDirectory(prefix="sg-step-") as folder:
        async with running_service(Path(folder)) as service:
            return machine, await asyncio.to_thread(measure, plan, models, service)


if __name__ == "__main__":
    sys.exit(main())
