"""The workload: prompts from a file, as the target reads them."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.errors import ConfigError, TrainingError
from engine.training import ChatTemplate, DropError, Record, TemplateError, read_records

MOST_TOKENS = 128
"""Longest answer that is asked for; a request of the traffic may ask for a shorter one."""
_MOST_PROMPTS = 2_000


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request.

    Attributes:
        tokens: Token ids, template included; at least one.
        most: Longest answer, in tokens.
    """

    tokens: Sequence[int]
    most: int


@dataclass(frozen=True, slots=True)
class Workload:
    """What a model is asked.

    Attributes:
        name: For people.
        prompts: At least one, in the order of the file.
        digest: Of all prompts.
        dropped: Records that cannot be asked, by reason.
    """

    name: str
    prompts: Sequence[Prompt]
    digest: str
    dropped: Counter[str]


def read_workload(path: Path, template: ChatTemplate, *, most_tokens: int) -> Workload:
    """Read conversations, prompts or recorded requests.

    A conversation is asked up to its last user's turn that fits.

    Args:
        path: JSON Lines in a form that `engine.training` reads, or bodies of the OpenAI API.
        template: The target's.
        most_tokens: Longest prompt with its answer.

    Raises:
        ConfigError: The file cannot be read, is not JSON Lines, or has no usable prompt.
    """
    prompts: list[Prompt] = []
    dropped: Counter[str] = Counter()
    try:
        for _, line in read_records(path):
            try:
                prompts.append(_prompt(line, template, most_tokens))
            except (DropError, TemplateError) as reason:
                dropped[str(reason)] += 1
            if len(prompts) == _MOST_PROMPTS:
                break
    except OSError as exc:
        raise ConfigError([f"{path}: cannot be read: {exc.strerror}"]) from exc
    except TrainingError as exc:
        raise ConfigError([str(exc)]) from exc
    if not prompts:
        found = "; ".join(f"{count} {reason}" for reason, count in dropped.most_common(3))
        raise ConfigError([f"{path}: no usable prompt: {found or 'the file is empty'}"])
    asked = [[list(prompt.tokens), prompt.most] for prompt in prompts]
    return Workload(path.name, prompts, sha256(json.dumps(asked).encode()).hexdigest(), dropped)


def _prompt(line: str | Record, template: ChatTemplate, most_tokens: int) -> Prompt:
    """Return what a line asks.

    Raises:
        DropError: There is no question, or it is too long.
        TemplateError: The template refuses it.
    """
    if isinstance(line, Record):
        raise DropError("a plain text: JSON Lines are needed")
    record = Record.read(line)
    most = _longest_answer(json.loads(line))
    ends = [at + 1 for at, one in enumerate(record.messages) if one["role"] in ("user", "tool")]
    if not ends:
        raise DropError("no question")
    for end in reversed(ends):
        tokens, _ = template.split(record.messages[:end], end, record.tools)
        if len(tokens) + most <= most_tokens:
            return Prompt(tokens, most)
    raise DropError(f"longer than {most_tokens} tokens with its answer")


def _longest_answer(body: Any) -> int:
    """Return `max_tokens` of a recorded request, if it has one, up to `MOST_TOKENS`."""
    if not isinstance(body, dict):
        return MOST_TOKENS
    asked = [body.get(name) for name in ("max_completion_tokens", "max_tokens")]
    given = [one for one in asked if isinstance(one, int) and not isinstance(one, bool) and one > 0]
    return min([MOST_TOKENS, *given])
