"""Prompts read from a folder of JSON lines: single prompts (`messages`), sessions (`turns`).

A line is `{"category", "messages": [...]}` or `{"turns": [{"messages": [...], "response"}]}`.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from loadtest.load.conversation import Conversation, Messages, Turn
from loadtest.load.scenario import Kind, Traffic

_CATEGORIES: Mapping[str, Kind] = {"code": "code", "code_edit": "edit"}
_LONG_CHARACTERS = 6_000
"""A prompt of so many is a `document`, whatever it is about."""


class DataError(Exception):
    """The data cannot be used; the message says why."""


class RecordedPrompts:
    """Draws from what a folder holds.

    Raises:
        DataError: A line is no such record, or a kind that the mix asks for has none that fits.
    """

    def __init__(self, folder: Path, mix: Iterable[Traffic]) -> None:
        found = _read(folder)
        self._fitting: dict[str, Sequence[Conversation]] = {}
        for traffic in mix:
            fitting = [
                cut
                for conversation in found[traffic.prompts]
                if (cut := _cut(conversation, traffic)) is not None
            ]
            if not fitting:
                raise DataError(f"{folder}: no prompt for {traffic.name} ({traffic.prompts})")
            self._fitting[traffic.name] = fitting

    def draw(self, traffic: Traffic, random: Random) -> Conversation:
        """A conversation of this kind; the same for the same state of `random`."""
        return random.choice(self._fitting[traffic.name])


def _read(folder: Path) -> Mapping[Kind, list[Conversation]]:
    found: dict[Kind, list[Conversation]] = defaultdict(list)
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                kind, conversation = _conversation_of(json.loads(line))
            except (KeyError, TypeError, ValueError) as error:
                raise DataError(f"{path.name}, line {number}: {error!r}") from error
            found[kind].append(conversation)
    return found


def _conversation_of(record: Mapping[str, Any]) -> tuple[Kind, Conversation]:
    if "turns" in record:
        turns = [Turn(_messages(turn), str(turn["response"])) for turn in record["turns"]]
        return "session", Conversation(turns)
    single = Conversation((Turn(_messages(record), reply=""),))
    if _characters(single.turns[:1]) >= _LONG_CHARACTERS:
        return "document", single
    return _CATEGORIES.get(str(record.get("category")), "chat"), single


def _messages(record: Mapping[str, Any]) -> Messages:
    return tuple(
        {"role": str(message["role"]), "content": str(message["content"])}
        for message in record["messages"]
    )


def _cut(conversation: Conversation, traffic: Traffic) -> Conversation | None:
    """As many turns as the traffic takes and as fit; None if not even the first one does."""
    count = 0
    for end in range(1, min(traffic.turns, len(conversation.turns)) + 1):
        if _characters(conversation.turns[:end]) > traffic.most_prompt_characters:
            break
        count = end
    return Conversation(conversation.turns[:count]) if count else None


def _characters(turns: Sequence[Turn]) -> int:
    return sum(
        len(turn.reply) + sum(len(message["content"]) for message in turn.messages)
        for turn in turns
    )
