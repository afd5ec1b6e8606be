"""`make bench-pacing`: the effect of pacing on streams, its cost, and what it hides.

    python -m bench.pacing [--quick] [--data DIR] [--url URL] [--patterns FILE]
        [--rounds N] [--plot FILE]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see `report`).
"""

import argparse
import asyncio
import gc
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from bench.command import add_data, new_parser, print_line
from bench.pacing.bench import Choices, run
from bench.pacing.figures import MismatchError
from bench.pacing.plan import FULL, QUICK
from bench.pacing.record import RecordError
from loadtest.conversations import DataError
from loadtest.processes import StartError


def _local_port(url: str) -> int:
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost"):
        raise argparse.ArgumentTypeError("only http://127.0.0.1:PORT: both ends share a clock")
    return parts.port or 80


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = new_parser("pacing")
    add_data(parser)
    parser.add_argument("--url", type=_local_port, help="a service here to record from")
    parser.add_argument("--patterns", type=Path, help="what an earlier run recorded")
    parser.add_argument("--rounds", type=int, help="how often every mode plays everything")
    parser.add_argument("--plot", type=Path, help="draw one stream in this file (.svg or .png)")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    if arguments.rounds is not None:
        rounds = max(1, arguments.rounds)
        plan = replace(plan, rounds=rounds, crowd_rounds=min(rounds, plan.crowd_rounds))
    choices = Choices(
        plan=plan,
        data=arguments.data.resolve(),
        port=arguments.url,
        patterns=arguments.patterns,
        plot=arguments.plot,
    )
    gc.disable()  # a collection in the client would be taken for latency of the gateway
    return print_line(
        lambda: asyncio.run(run(choices)),
        (
            *(DataError, MismatchError, RecordError, StartError),
            *(OSError, aiohttp.ClientError),
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
