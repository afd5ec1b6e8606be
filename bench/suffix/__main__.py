"""`make bench-suffix`: our suffix index beside arctic-inference's, in one alternating run.

    python -m bench.suffix [--quick] [--data DIR] [--config FILE]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from bench.command import add_data, look_at_machine, new_parser, print_line
from bench.peers import InstallError, install
from bench.rounds import Json
from bench.suffix.child import ChildError, Sides
from bench.suffix.corpus import CONFIG, load_corpus, tokenizer_of
from bench.suffix.datasets import save_datasets
from bench.suffix.measure import measure
from bench.suffix.plan import ARCTIC_REQUIREMENTS, FULL, QUICK, Plan
from engine.errors import EngineError
from loadtest.conversations import DataError
from loadtest.progress import say


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = new_parser("suffix")
    add_data(parser)
    parser.add_argument("--config", type=Path, default=CONFIG)
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    return print_line(
        lambda: _run(plan, arguments.data.resolve(), arguments.config),
        (ChildError, DataError, EngineError, InstallError, OSError),
    )


def _run(plan: Plan, data: Path, config: Path) -> Json:
    machine = asyncio.run(look_at_machine())
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
