"""The prompts: those that ship with `specgate verify`, recorded ones, and made-up ones."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any

from bench.exact.made_up import Body, made_up
from gateway.verify import KINDS, Prompt, shipped_prompts
from loadtest.conversations import Record, read_folder

SEED = 20_261_128
MOST_BYTES = 6_000
"""Of a recorded prompt. A token is at least a byte."""

_ANSWER_TOKENS: Mapping[str, int] = {
    "json_schema": 48, "tool": 64, "parallel_tools": 64, "streamed_tool": 64,
}  # fmt: skip
"""Kinds whose answers end by themselves get the room for it."""

_KIND_OF_CATEGORY: Mapping[str, str] = {
    "code": "code", "code_edit": "code", "coding": "code", "json_extraction": "json_schema",
    "math": "reasoning", "math_reasoning": "reasoning", "reasoning": "reasoning",
    "translation": "language",
}  # fmt: skip
_LONG_BYTES = 1_500


def prompts_of(folder: Path, *, each: int, answer_tokens: int) -> list[Prompt]:
    """Return prompts of all kinds, in an order in which every kind comes every twelve prompts.

    A kind begins with those that ship; then come recorded ones, and made-up ones in turn.

    Args:
        folder: With recorded conversations; may have none.
        each: Prompts of each kind.
        answer_tokens: `max_tokens`, of most kinds.

    Raises:
        DataError: A file of the folder has other lines.
    """
    shipped: dict[str, list[Body]] = {kind: [] for kind in KINDS}
    for prompt in shipped_prompts():
        shipped[prompt.kind].append(prompt.body)
    recorded = _recorded(folder)
    columns = []
    for kind in KINDS:
        following = _in_turn(iter(recorded.get(kind, ())), made_up(kind, SEED))
        most = max(answer_tokens, _ANSWER_TOKENS.get(kind, 0))
        bodies = ({**body, "max_tokens": most} for body in chain(shipped[kind], following))
        columns.append([(kind, body) for body in islice(_distinct(bodies), each)])
    rows = chain.from_iterable(zip(*columns, strict=True))
    return [Prompt(number, kind, body) for number, (kind, body) in enumerate(rows, 1)]


def _recorded(folder: Path) -> Mapping[str, list[Body]]:
    """Read the first request of each recorded conversation, by kind, in a shuffled order."""
    found: dict[str, dict[str, Body]] = {}
    for record in read_folder(folder):
        messages = [dict(message) for message in next(record.conversation.prompts())]
        size = sum(len(message["content"].encode()) for message in messages)
        if size <= MOST_BYTES:
            kind = "long_context" if size > _LONG_BYTES else _kind_of(record)
            body = {"messages": messages, **(_schema(messages) if kind == "json_schema" else {})}
            found.setdefault(kind, {})[json.dumps(messages)] = body
    lists = {kind: list(bodies.values()) for kind, bodies in found.items()}
    for bodies in lists.values():
        Random(SEED).shuffle(bodies)  # the same in every run
    return lists


def _kind_of(record: Record) -> str:
    return _KIND_OF_CATEGORY.get(record.category, "code" if record.is_session else "chat")


def _schema(messages: list[dict[str, str]]) -> Body:
    """Return the response format that the first message describes, else any JSON object."""
    text = messages[0]["content"]
    try:
        schema: Any = json.JSONDecoder().raw_decode(text, text.index("{"))[0]
    except ValueError:
        return {"response_format": {"type": "json_object"}}
    named = {"name": "answer", "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _in_turn(first: Iterator[Body], second: Iterator[Body]) -> Iterator[Body]:
    """Take from both in turn, and from the second when the first has no more."""
    for one in first:
        yield one
        yield from islice(second, 1)
    yield from second


def _distinct(bodies: Iterable[Body]) -> Iterator[Body]:
    seen: set[str] = set()
    for body in bodies:
        said = json.dumps(body)
        if said not in seen:
            seen.add(said)
            yield body
