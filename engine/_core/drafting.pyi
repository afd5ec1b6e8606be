"""The compiled core: what a step does for each of its rows. The work is done in core/ (C++20)."""

from collections.abc import Callable, Sequence

from engine.drafting.control import Control
from engine.drafting.origin import Origin
from engine.drafting.rows import HeadPass
from engine.drafting.source import Source
from engine.policy import ForwardDrafter, Gate, Load
from engine.suffix import Index

class Batch:
    """The running requests, and the step that is being drafted for.

    A step calls `enter`, then `draft`. After an error, of a source, of the head or of an argument,
    the requests of the step may be in any state: they must be ended.

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

    def begin(self, request: str, control: Control, *, most: int, left: int, known: int) -> None:
        """Remember a request; one of that name is forgotten.

        Args:
            request: Its id.
            control: Says which sources may draft for it and at which temperature its text is
                sampled, and may name a price of its own.
            most: Most tokens of a draft.
            left: Most tokens that it may get, those of its first step included.
            known: Tokens that it has, those not included.
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
            load: What is known of the next step; its rows are those that got tokens in this one,
                and its context tokens those of other requests: the rows' are added.

        Returns:
            Requests that got tokens and are unknown: nothing has happened, and they are to begin
            first. None where there are none.
        """

    def draft(
        self, native: Sequence[Sequence[int]] | None, head: HeadPass | None
    ) -> tuple[list[list[int]], list[Origin | None], str, bool, int]:
        """Tell the source what was generated, and choose what each row drafts; ends the step.

        The source is asked first, for the rows that may have a draft. A row takes what vLLM's
        drafter or the head proposes where it is worth more than what it has, at the price of what
        there is by then; where the head's tokens end, or are no longer sure, the source goes on.
        The head runs for the rows where it is likely to bring more than they have, if together that
        is more than a pass costs; now and then, to see if it would, also for others.

        Args:
            native: What vLLM's own drafter proposes, by row; None where it did not run.
            head: Runs the head; None where there is nothing to run it on.

        Returns:
            By row the tokens, which are now being verified, and whose they are, None where there
            are none; the verdict (`Counters`); whether the step has changed `is_open`; the tokens
            in the caches of all running requests.
        """

    @property
    def price(self) -> float:
        """At which the drafts of the latest step that had any were cut."""

    @property
    def is_open(self) -> bool:
        """Whether steps of late drafted by and large, where they could."""

    def native_tokens(self) -> int:
        """Return how many tokens vLLM's own drafter shall propose next; ask once a step."""
