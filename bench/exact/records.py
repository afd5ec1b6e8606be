"""Answers in a folder: a file for each pass, a line for each prompt. A run that stopped goes on."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from bench.exact.answers import Answer
from bench.exact.plan import Pass
from gateway.verify import Prompt

Answers = Mapping[str, Sequence[Answer]]
"""By the prompt's key: the answers to the first asking and to the second."""


def key_of(prompt: Prompt) -> str:
    """Name a prompt by what is asked."""
    body = json.dumps(prompt.body, sort_keys=True)
    return sha256(body.encode()).hexdigest()[:16]


class Records:
    """The answers of all passes.

    Args:
        folder: Where they are; created if missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def load(self, one: Pass) -> Answers:
        """Return the answers of a pass so far."""
        found = {}
        for line in self._whole_lines(one):
            record = json.loads(line)
            found[record["prompt"]] = [Answer.from_json(each) for each in record["answers"]]
        return found

    def missing(self, one: Pass, prompts: Sequence[Prompt]) -> Sequence[Prompt]:
        """Return the prompts that have no answers yet."""
        known = self.load(one)
        return [prompt for prompt in prompts if key_of(prompt) not in known]

    def mend(self, one: Pass) -> None:
        """Drop a line that was not written to its end, before others are added."""
        path = self._path(one)
        if path.exists():
            path.write_text("".join(f"{line}\n" for line in self._whole_lines(one)), "utf-8")

    def add(self, one: Pass, prompt: Prompt, answers: Sequence[Answer]) -> None:
        """Keep the answers to a prompt."""
        record = {"prompt": key_of(prompt), "answers": [answer.as_json() for answer in answers]}
        with self._path(one).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record, ensure_ascii=False) + "\n")

    def _path(self, one: Pass) -> Path:
        return self._folder / f"{one.name}.jsonl"

    def _whole_lines(self, one: Pass) -> Sequence[str]:
        path = self._path(one)
        text = path.read_text("utf-8") if path.exists() else ""
        return text.split("\n")[:-1]  # what follows the last end of line is not whole
