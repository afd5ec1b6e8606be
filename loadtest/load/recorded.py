"""Prompts drawn from a folder of recorded conversations."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random

from loadtest.conversations import Conversation, DataError, Record, Turn, read_folder
from loadtest.load.scenario import Kind, Traffic

_LONG_CHARACTERS = 6_000
"""A single prompt of at least this length is a `document`, whatever it is about."""


class RecordedPrompts:
    """Draws from the conversations of a folder.

    Raises:
        DataError: A line is not a record, or a kind of the mix has no conversation that fits.
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
    for record in read_folder(folder):
        found[_kind_of(record)].append(record.conversation)
    return found


def _kind_of(record: Record) -> Kind:
    (first, *_) = record.conversation.turns
    is_long = _prompt_characters(first) >= _LONG_CHARACTERS
    return "document" if is_long and not record.is_session else record.kind


def _cut(conversation: Conversation, traffic: Traffic) -> Conversation | None:
    """Keep as many turns as the traffic has and as fit; None if not even the first one fits."""
    count = 0
    for end in range(1, min(traffic.turns, len(conversation.turns)) + 1):
        if _characters(conversation.turns[:end]) > traffic.most_prompt_characters:
            break
        count = end
    return Conversation(conversation.turns[:count]) if count else None


def _characters(turns: Sequence[Turn]) -> int:
    return sum(len(turn.reply) + _prompt_characters(turn) for turn in turns)


def _prompt_characters(turn: Turn) -> int:
    return sum(len(message["content"]) for message in turn.messages)
