"""`make bench-suffix`: our suffix index beside arctic-inference's, in one alternating run.

    python -m bench.suffix [--quick] [--data DIR] [--config FILE]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from bench.peers import InstallError, install
from bench.suffix.child import ChildError, Sides
from bench.suffix.corpus import CONFIG, DATA, load_corpus, tokenizer_of
from bench.suffix.datasets import save_datasets
from bench.suffix.measure import measure
from bench.suffix.plan import ARCTIC_REQUIREMENTS, FULL, QUICK, Plan
from bench.suffix.replay import Json
from bench.suffix.report import rounded
from engine.errors import EngineError
from loadtest.conversations import DataError
from loadtest.machine import describe_machine
from loadtest.progress import say

_BUSY_LOAD = 0.7


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = argparse.ArgumentParser(prog="python -m bench.suffix")
    parser.add_argument("--quick", action="store_true", help="a first look within three minutes")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--config", type=Path, default=CONFIG)
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    try:
        found = _run(plan, arguments.data.resolve(), arguments.config)
    except (ChildError, DataError, EngineError, InstallError, OSError) as error:
        say(f"failed: {error}")
        return 1
    sys.stdout.write(json.dumps(rounded(found)) + "\n")
    return 0


def _run(plan: Plan, data: Path, config: Path) -> Json:
    machine = asyncio.run(describe_machine())
    if machine.load_before > _BUSY_LOAD:
        say(f"the machine is already busy (load {machine.load_before:.1f}): expect wide spreads")
    say("installing the peer where it is missing")
    peer = asyncio.run(install("arctic", ARCTIC_REQUIREMENTS)) / "bin" / "python"
    datasets = load_corpus(data, tokenizer_of(config), most_tokens=plan.set_tokens)
    with tempfile.TemporaryDirectory(prefix="specgate-bench-") as folder:
        tokens = Path(folder, "tokens.npz")
        save_datasets(tokens, datasets)
        found = measure(plan, datasets, Sides(Path(sys.executable), peer, tokens))
    return {"bench": "suffix", **found, "machine": machine.as_json()}


if __name__ == "__main__":
    sys.exit(main())
