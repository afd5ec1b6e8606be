"""Conversations turn by turn, and the reader of files that hold recorded ones.

A file has one JSON object a line: a single prompt `{"category", "messages", "reference"}`, whose
reference answer is optional, or a session `{"category", "turns": [{"messages", "response"}]}`,
where `messages` are those that are new in the turn.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

Kind = Literal["chat", "code", "edit", "session"]
Message = Mapping[str, str]
Messages = Sequence[Message]
Parsed = TypeVar("Parsed")

_KINDS: Mapping[str, Kind] = {"code": "code", "code_edit": "edit"}


class DataError(Exception):
    """A file or folder cannot be used; the message says which, and the line."""


@dataclass(frozen=True, slots=True)
class Turn:
    """New messages, and the reply that later turns find in the history."""

    messages: Messages
    reply: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """At least one turn.

    The history holds these replies, not the server's: every server is asked the same, whatever it
    answered.
    """

    turns: Sequence[Turn]

    def prompts(self) -> Iterator[Messages]:
        """The messages to send at each turn: the history, and what is new."""
        history: list[Message] = []
        for turn in self.turns:
            history += turn.messages
            yield list(history)
            history.append({"role": "assistant", "content": turn.reply})


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a file.

    Attributes:
        category: Empty when the line names none.
        is_session: Recorded turn by turn; otherwise a single prompt.
        reference: Answer to a single prompt; empty when there is none.
        name: Its id in the file, or empty.
    """

    category: str
    is_session: bool
    conversation: Conversation
    reference: str = ""
    name: str = ""

    @property
    def kind(self) -> Kind:
        """What is asked for; `chat` is every prompt that is not about code."""
        return "session" if self.is_session else _KINDS.get(self.category, "chat")

    def exchanges(self) -> Iterator[tuple[Messages, str]]:
        """The requests whose answers were recorded, as (all messages before the answer, answer)."""
        answers = [turn.reply for turn in self.conversation.turns]
        if not self.is_session:
            answers = [self.reference] if self.reference else []
        yield from zip(self.conversation.prompts(), answers, strict=False)


def read_folder(folder: Path) -> Iterator[Record]:
    """Read every `*.jsonl` of a folder, in the order of their names.

    Raises:
        DataError: A line is not as described above.
        OSError: A file cannot be read.
    """
    for path in sorted(folder.glob("*.jsonl")):
        yield from read_file(path)


def read_file(path: Path) -> Iterator[Record]:
    """Read one file.

    Raises:
        DataError: A line is not as described above.
        OSError: The file cannot be read.
    """
    return read_lines(path, record_of)


def read_lines(path: Path, parse: Callable[[Any], Parsed]) -> Iterator[Parsed]:
    """Read any file of JSON lines; blank lines are skipped.

    Raises:
        DataError: A line is no JSON, or `parse` raised KeyError, TypeError or ValueError.
        OSError: The file cannot be read.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield parse(json.loads(line))
            except (KeyError, TypeError, ValueError) as error:
                raise DataError(f"{path.name}, line {number}: {error!r}") from error


def record_of(fields: object) -> Record:
    """Read the object of one line.

    Raises:
        KeyError, TypeError: It is not as described above.
    """
    if not isinstance(fields, dict):
        raise TypeError("expected an object")
    category, name = str(fields.get("category", "")), str(fields.get("id", ""))
    if "turns" in fields:
        turns = [Turn(_messages(turn), _text(turn["response"])) for turn in _list(fields["turns"])]
        conversation = Conversation(turns)
        return Record(category, is_session=True, conversation=conversation, name=name)
    single = Conversation([Turn(_messages(fields), reply="")])
    reference = _text(fields.get("reference") or "")
    return Record(category, is_session=False, conversation=single, reference=reference, name=name)


def _messages(fields: Mapping[str, Any]) -> Messages:
    return tuple(
        {"role": str(message["role"]), "content": _text(message["content"])}
        for message in _list(fields["messages"])
    )


def _list(value: object) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list) or not value:
        raise TypeError("expected a list that is not empty")
    return value


def _text(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content)
