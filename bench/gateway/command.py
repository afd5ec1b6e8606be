"""How both benchmarks of the gateway are run."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import uvloop

from bench.command import print_line
from bench.rounds import Json
from loadtest.processes import StartError

Measure = Callable[[], Coroutine[Any, Any, Json]]


def run_and_print(measure: Measure, *, limit_seconds: float) -> int:
    """Run a benchmark on uvloop, print its JSON line, and return the exit status."""
    gc.disable()  # a collection in the client would be taken for latency of the target
    return print_line(partial(_run, measure, limit_seconds), (StartError,))


def _run(measure: Measure, limit_seconds: float) -> Json:
    return uvloop.run(asyncio.wait_for(measure(), limit_seconds))
