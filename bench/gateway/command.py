"""How both benchmarks of the gateway end: one JSON line, or the reason why there is none."""

import asyncio
import gc
import json
import sys
from collections.abc import Coroutine
from typing import Any

import uvloop

from loadtest.processes import StartError
from loadtest.progress import say


def print_found(measure: Coroutine[Any, Any, object], *, limit_seconds: float) -> int:
    """Run a benchmark, print what it found, and return the exit status."""
    gc.disable()  # a collection in the client would be taken for latency of the target
    try:
        found = uvloop.run(asyncio.wait_for(measure, limit_seconds))
    except StartError as error:
        say(str(error))
        return 1
    sys.stdout.write(json.dumps(found) + "\n")
    return 0
