"""The compiled core: what a step does for each of its rows. The work is done in core/ (C++20)."""

from collections.abc import Callable, Sequence

from engine.drafting.control import Control
from engine.drafting.origin import Origin
from engine.drafting.source import Source
from engine.policy import ForwardDrafter, Gate, Load
from engine.suffix import Index

class Batch:
    """The running requests, and the step that is being drafted for.

    A step calls `enter`, `ask` and `settle`, then what it has of `offer_native`, `head_rows` and
    `offer_head`, each followed by `settle`, and at last `cut`. After an error, of a source or of an
    argument, the requests of the step may be in any state: they must be ended.

    Args:
        gate: Says what a draft token has to be worth; it learns from each step.
        source: The suffix source: an index, which is asked itself, for all rows at once; or a
            source in Python, of which `advance` and `go_on` are called for each row. None where
            there is none.
        native: vLLM's own drafter.
        head: The draft head.
        origin: Makes an origin: a source, a second one or 0, and the tokens of the first.
    """

    def __init__(
        self,
        gate: Gate,
        source: Index | Source | None,
        *,
        native: ForwardDrafter,
        head: ForwardDrafter,
        origin: Callable[[int, int, int], Origin],
    ) -> None: ...
    @property
    def source(self) -> Index | Source | None:
        """Who is asked; can be set between steps, to another face of what knows the requests."""

    @source.setter
    def source(self, source: Index | Source | None, /) -> None: ...
    @property
    def running(self) -> list[str]:
        """Requests that something is remembered of."""

    def begin(self, request: str, control: Control, *, most: int, left: int) -> None:
        """Remember a request; one of that name is forgotten.

        Args:
            request: Its id.
            control: Says which sources may draft for it, and may name a price of its own.
            most: Most tokens of a draft.
            left: Most tokens that it may get, those of its first step included.
        """

    def join(self, request: str) -> None:
        """Have the source asked for a request from now on: it has begun there.

        Raises:
            KeyError: The request is unknown.
        """

    def end(self, request: str) -> bool:
        """Forget a request, and what there is of a step; whether the source knows the request.

        Unknown ones are ignored.
        """

    def enter(
        self, requests: Sequence[str], sampled: Sequence[Sequence[int]], load: Load
    ) -> list[str] | None:
        """Begin a step: all but the source learn what was generated.

        Args:
            requests: Ids of its rows.
            sampled: The new tokens of each; may be none.
            load: What is known of the next step; its rows are those that got tokens in this one.

        Returns:
            Requests that got tokens and are unknown: nothing has happened, and they are to begin
            first. None where there are none.
        """

    def ask(self) -> None:
        """Tell the source what was generated, and ask it for the rows that may have a draft."""

    def settle(self) -> float:
        """Return the price at which the drafts that there are by now are to be cut.

        It is not for rows with a price of their own.
        """

    def offer_native(self, drafts: Sequence[Sequence[int]], price: float) -> None:
        """Take what vLLM's own drafter proposes, by row, where it is worth more at that price."""

    def head_rows(self, price: float) -> list[int] | None:
        """Return for which rows to run the head, rising; None where it is not to run.

        Those where it is likely to bring more than what the row has, if together that is more than
        a pass costs; now and then, to see if it would, also others.
        """

    def offer_head(
        self, guesses: Sequence[tuple[Sequence[int], Sequence[float]]], price: float
    ) -> None:
        """Take what the head proposes for these rows where it is worth more at that price.

        Where its tokens end, or are no longer sure, the source goes on.

        Args:
            guesses: Its tokens, and its own probability of each.
            price: Of a draft token.
        """

    def cut(self, price: float) -> tuple[list[list[int]], list[Origin | None], int, int]:
        """Cut the drafts at a price; what is left of them is now being verified.

        Returns:
            By row the tokens, and whose they are, None where there are none; how many rows had a
            draft before the cut, and how many have one.
        """

    def native_tokens(self) -> int:
        """Return how many tokens vLLM's own drafter shall propose next; ask once a step."""
