"""The prompts: those that ship, or a file of your own. Pure but for reading it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

KINDS = (
    "chat", "code", "json_schema", "grammar", "tool", "parallel_tools", "streamed_tool",
    "reasoning", "long_context", "stop", "language", "emoji",
)  # fmt: skip
"""Of the prompts that ship."""

_LEFT_OUT = frozenset({
    "kind", "model", "temperature", "logprobs", "top_logprobs", "n", "stream_options", "cache_salt",
})  # fmt: skip
"""Members of a line that are not sent as they are."""

_MOST_BYTES = 32 << 20


class PromptsError(Exception):
    """A file with prompts cannot be used; the message names the line."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request.

    Attributes:
        number: Of the line, from 1.
        kind: Groups results.
        body: Of a chat completion, without model, temperature and log-probabilities.
    """

    number: int
    kind: str
    body: dict[str, Any]

    @property
    def is_streamed(self) -> bool:
        """Whether the answer is asked for as a stream."""
        return bool(self.body.get("stream"))


def shipped_prompts() -> list[Prompt]:
    """Return the prompts that ship, of all `KINDS`."""
    text = (files(__package__) / "prompts.jsonl").read_text(encoding="utf-8")
    return list(_parse(text, "prompts.jsonl"))


def read_prompts(path: Path) -> list[Prompt]:
    """Read a file of JSON Lines.

    A line is the body of a chat completion (`messages` and what else it needs), `{"prompt": ...}`,
    or a string. `kind` groups results.

    Raises:
        PromptsError: The file cannot be read, or a line is none of these.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise PromptsError(f"{path} is larger than {_MOST_BYTES >> 20} MiB")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PromptsError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PromptsError(f"{path} is not UTF-8") from error
    found = list(_parse(text, path.name))
    if not found:
        raise PromptsError(f"{path} has no prompts")
    return found


def _parse(text: str, name: str) -> Iterator[Prompt]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError as error:
            raise PromptsError(f"{name}, line {number} is not JSON") from error
        yield _prompt(found, f"{name}, line {number}", number)


def _prompt(found: object, where: str, number: int) -> Prompt:
    if isinstance(found, str):
        found = {"prompt": found}
    if not isinstance(found, dict):
        raise PromptsError(f"{where} is neither an object nor a string")
    kind = found.get("kind", "prompts")
    if not isinstance(kind, str) or not kind:
        raise PromptsError(f"{where}: kind is no name")
    body = {name: value for name, value in found.items() if name not in _LEFT_OUT}
    prompt = body.pop("prompt", None)
    if isinstance(prompt, str) and "messages" not in body:
        body["messages"] = [{"role": "user", "content": prompt}]
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise PromptsError(f"{where} has neither messages nor a prompt")
    return Prompt(number, kind, body)
