"""`make bench-drift`: acceptance of a static and of an adapted head while the workload changes.

    python -m bench.drift [--quick] [--folder DIR]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import asyncio
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import httpx

from bench.command import look_at_machine, new_parser, print_line
from bench.drift.replay import replay
from bench.drift.report import report
from bench.drift.slowdown import SlowdownError, measure_slowdown
from bench.drift.traffic import record
from bench.rounds import Json
from engine.processor import describe_processor
from loadtest.processes import StartError

_TOKENS = {"chat": 20_000, "sql": 55_000, "german": 55_000}
_EVERY_TOKENS, _AFTER_TOKENS, _PART_TOKENS = 20_000, 50_000, 5_000
_TURNS, _ANSWERS = 6, 4
_QUICK = 12
"""By what the quick form divides these."""


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = new_parser("drift")
    parser.add_argument(
        "--folder",
        type=Path,
        help="for the recorded traffic (200 MB): an interrupted run goes on there; else it is "
        "deleted",
    )
    parser.add_argument(
        "--every-tokens",
        type=int,
        default=_EVERY_TOKENS,
        help="recorded tokens from one training to the next; each takes minutes on two cores",
    )
    arguments = parser.parse_args()
    return print_line(
        lambda: _run(
            arguments.folder,
            every_tokens=arguments.every_tokens,
            share=_QUICK if arguments.quick else 1,
        ),
        (StartError, SlowdownError, httpx.HTTPError),
    )


def _run(folder: Path | None, *, every_tokens: int, share: int) -> Json:
    machine = asyncio.run(look_at_machine())
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-drift-")))
        folder.mkdir(parents=True, exist_ok=True)
        tokens = {kind: most // share for kind, most in _TOKENS.items()}
        recorded = asyncio.run(record(folder, tokens=tokens))
        slowdown = asyncio.run(
            measure_slowdown(
                recorded.folder.root,
                Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-drift-"))),
                turns=2 if share > 1 else _TURNS,
                answers=1 if share > 1 else _ANSWERS,
            )
        )
        parts = replay(
            recorded, every_tokens=every_tokens // share, part_tokens=_PART_TOKENS // share
        )
    return {
        **report(parts, slowdown, after_tokens=_AFTER_TOKENS // share),
        "every_tokens": every_tokens // share,
        "processor": describe_processor(),
        "machine": machine.as_json(),
    }


if __name__ == "__main__":
    sys.exit(main())
