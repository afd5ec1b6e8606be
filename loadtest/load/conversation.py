"""What one client says: turns, with the replies that stand between them fixed beforehand.

The history of a session holds its recorded replies, not the server's: every server is asked the
same, whatever it answered.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from loadtest.load.scenario import Traffic

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Turn:
    """New messages, and the reply that later turns find in the history."""

    messages: Messages
    reply: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """At least one turn."""

    turns: Sequence[Turn]

    def prompts(self) -> Iterator[Messages]:
        """The messages to send at each turn: the history, and what is new."""
        history: list[Mapping[str, str]] = []
        for turn in self.turns:
            history += turn.messages
            yield list(history)
            history.append({"role": "assistant", "content": turn.reply})


class Prompts(Protocol):
    """Where conversations come from."""

    def draw(self, traffic: Traffic, random: Random) -> Conversation:
        """A conversation of this kind; the same for the same state of `random`."""
