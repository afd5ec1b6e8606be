"""What the drafter remembers of a running request, and a row of a step that may draft."""

from typing import NamedTuple

from engine.drafting.control import Control
from engine.drafting.guess import Guesser


class Request:
    """A running request.

    Attributes:
        control: What it asks for.
        native: vLLM's own drafter in its eyes; None where there is none, or it does not want it.
        head: Likewise the draft head.
        indexed: Whether the suffix source knows it.
        drafted: Tokens that are being verified.
    """

    __slots__ = ("control", "drafted", "head", "indexed", "native")

    def __init__(self, control: Control, *, native: Guesser | None, head: Guesser | None) -> None:
        self.control = control
        self.native = native
        self.head = head
        self.indexed = False
        self.drafted = 0


class LiveRow(NamedTuple):
    """A row that got tokens and may draft up to `room` more.

    Attributes:
        at: Its place in the step.
        name: The request's id.
        request: What is remembered of it.
        room: Most tokens of its draft; below 1 where there is none to be.
    """

    at: int
    name: str
    request: Request
    room: int
