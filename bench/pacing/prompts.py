"""The prompts that patterns are recorded with: short ones of one turn, by kind."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from bench.pacing.plan import SEED
from loadtest.conversations import DataError, Messages, read_folder

KINDS = ("chat", "code", "edit")
_MOST_CHARACTERS = 1_500  # a long prompt takes this worker seconds before its first token


def load_prompts(folder: Path) -> Mapping[str, Sequence[Messages]]:
    """Read every file of `messages` in a folder.

    Returns:
        By kind, prompts of one turn that are not long, in an order that is the same in every run.

    Raises:
        DataError: A line is no such record, or a kind has no prompt.
    """
    found: dict[str, dict[str, Messages]] = defaultdict(dict)
    for record in read_folder(folder):
        if record.is_session:
            continue
        messages = record.conversation.turns[0].messages
        text = json.dumps(messages)
        if len(text) <= _MOST_CHARACTERS:
            found[record.kind][text] = messages
    if missing := [kind for kind in KINDS if not found[kind]]:
        raise DataError(f"{folder}: no prompts for {', '.join(missing)}")
    return {kind: _shuffled(list(prompts.values())) for kind, prompts in found.items()}


def _shuffled(prompts: list[Messages]) -> list[Messages]:
    Random(SEED).shuffle(prompts)
    return prompts
