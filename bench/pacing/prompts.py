"""The prompts that patterns are recorded with: read from JSON lines, told apart by category."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from bench.pacing.plan import SEED

Messages = Sequence[Mapping[str, str]]

KINDS = ("chat", "code", "edit")
_CATEGORIES = {"code": "code", "code_edit": "edit"}
_MOST_CHARACTERS = 1_500  # a long prompt takes this worker seconds before its first token


class PromptError(Exception):
    """The data cannot be used; the message says why."""


def load_prompts(folder: Path) -> Mapping[str, Sequence[Messages]]:
    """Read every file of `messages` in a folder.

    Returns:
        By kind, prompts of one turn that are not long, in an order that is the same in every run.

    Raises:
        PromptError: A line is no such record, or a kind has no prompt.
    """
    found: dict[str, dict[str, Messages]] = defaultdict(dict)
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                record = json.loads(line)
                if "messages" not in record:
                    continue  # recorded sessions
                messages = [
                    {"role": str(message["role"]), "content": str(message["content"])}
                    for message in record["messages"]
                ]
            except (KeyError, TypeError, ValueError) as error:
                raise PromptError(f"{path.name}, line {number}: {error!r}") from error
            text = json.dumps(messages)
            kind = _CATEGORIES.get(str(record.get("category")), "chat")
            if len(text) <= _MOST_CHARACTERS:
                found[kind][text] = messages
    if missing := [kind for kind in KINDS if not found[kind]]:
        raise PromptError(f"{folder}: no prompts for {', '.join(missing)}")
    return {kind: _shuffled(list(prompts.values())) for kind, prompts in found.items()}


def _shuffled(prompts: list[Messages]) -> list[Messages]:
    Random(SEED).shuffle(prompts)
    return prompts
