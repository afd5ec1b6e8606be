"""What the drafter remembers of a running request, and what it drafts in the present step."""

from collections.abc import Sequence

from engine.drafting.candidate import Candidate
from engine.drafting.control import Control
from engine.drafting.source import Source
from engine.policy import Guesser


class Request:
    """A running request, and its row in the step that is being drafted for.

    Attributes:
        name: Its id.
        control: What it asks for.
        most: Most tokens of a draft, by its own wish and for all.
        native: vLLM's own drafter in its eyes; None where there is none, or it does not want it.
        head: Likewise the draft head.
        suffix: The suffix source, where that knows it.
        drafted: Tokens that are being verified.
        at: Its place in the step.
        sampled: Its new tokens in this step.
        room: Most tokens of its draft in this step; below 1 where there is none to be.
        best: The draft that is worth most, of those that were proposed in this step.
    """

    __slots__ = (
        "at",
        "best",
        "control",
        "drafted",
        "head",
        "most",
        "name",
        "native",
        "room",
        "sampled",
        "suffix",
    )

    def __init__(
        self,
        name: str,
        control: Control,
        *,
        most: int,
        native: Guesser | None,
        head: Guesser | None,
    ) -> None:
        self.name = name
        self.control = control
        self.most = most
        self.native = native
        self.head = head
        self.suffix: Source | None = None
        self.best: Candidate | None = None
        self.drafted = self.at = self.room = 0
        self.sampled: Sequence[int] = ()

    def enter_step(self, at: int, sampled: Sequence[int], room: int) -> None:
        """Begin a step, at its place in that, with new tokens and room for so many more."""
        self.at = at
        self.sampled = sampled
        self.room = min(room, self.most)
        self.best = None
        self.drafted = 0

    def prefer(self, draft: Candidate, price: float) -> None:
        """Take a draft if it is worth more than what there is."""
        if draft.tokens and (self.best is None or draft.gain(price) > self.best.gain(price)):
            self.best = draft
