"""Types of the compiled batch; the work is done in engine/drafting/core (C++20)."""

from collections.abc import Callable, Sequence

from engine.drafting.control import Control
from engine.drafting.origin import Origin
from engine.drafting.step import HeadPass
from engine.policy import ForwardDrafter, Gate, Load
from engine.suffix import Index

class Batch:
    """The running requests, and the step that is being drafted for.

    Each step calls `enter`, `ask` and `draft`. If one of them raises, the requests of the step are
    in an undefined state and must be ended.

    Args:
        gate: Sets the price of draft tokens, and learns from each step.
        index: The suffix index; None if there is none.
        native: vLLM's own drafter.
        head: The draft head.
        origin: Makes an origin from a first source, a second source or 0, and the number of tokens
            from the first.
    """

    def __init__(
        self,
        gate: Gate,
        index: Index | None,
        *,
        native: ForwardDrafter,
        head: ForwardDrafter,
        origin: Callable[[int, int, int], Origin],
    ) -> None: ...
    @property
    def running(self) -> list[str]:
        """Ids of the requests that have begun and not ended."""

    def begin(self, request: str, control: Control, *, most: int, left: int, known: int) -> None:
        """Begin a request, replacing one of the same id.

        Args:
            request: Its id.
            control: Its sources, temperature, and maybe a price of its own.
            most: Longest draft, in tokens.
            left: Tokens that it may still get, including those of its first step.
            known: Tokens that it has, without those.
        """

    def join(self, request: str) -> None:
        """Ask the index for this request from now on: it has begun there.

        Raises:
            KeyError: The request has not begun.
        """

    def end(self, request: str) -> bool:
        """Forget a request and the current step. Unknown requests are ignored.

        Returns:
            Whether the index knows the request and has to be told.
        """

    def enter(
        self,
        requests: Sequence[str],
        sampled: Sequence[Sequence[int]],
        verified: Sequence[int],
        load: Load,
        in_flight: Sequence[int] | None = None,
    ) -> list[str] | None:
        """Begin a step: tell the drafters and the gate what was generated.

        Args:
            requests: Ids of its sequences.
            sampled: New tokens of each; may be empty.
            verified: Draft tokens that were verified of each: its last draft, or less where that
                was cut.
            load: What is known of the next step. Its sequences are ignored (they are those that got
                tokens in this step), and its context tokens are those of other requests.
            in_flight: If a further step has been launched already, the draft tokens that it
                verifies of each, -1 if it does not have the sequence. Drafts are then made for the
                step behind it, from what the index expects of both; the head cannot run.

        Returns:
            Requests that got tokens but have not begun. Then nothing has happened; begin them and
            call again. None if there are none.
        """

    def ask(self) -> int:
        """Tell the index what was generated, and take its drafts.

        Left out while the index is paused; no running request may be in it then.

        Returns:
            How many sequences it was asked for.
        """

    def draft(
        self,
        native: Sequence[Sequence[int]] | None,
        head: HeadPass | None,
        on_device: tuple[int, int] | None = None,
    ) -> tuple[list[list[int]], list[Origin | None], str, int]:
        """Choose what each sequence drafts, and end the step.

        A proposal of vLLM's drafter or of the head replaces a sequence's
        draft if it is worth more at the current price; the index continues the head's tokens where
        they end. The head runs for the sequences with the largest expected gains, as long as these
        exceed the cost of its pass, and now and then for a few others.

        Args:
            native: Proposals of vLLM's own drafter by sequence; None if it did not run.
            head: Runs the head; None if it cannot run in this step.
            on_device: Code of the source that drafts on the device in the step in flight, and how
                many tokens; -1 stands for each of them.

        Returns:
            By sequence: the draft tokens, which now count as being verified, and their origin (None
            without tokens). Then the decision (see `Counters`), and the tokens in the KV caches of
            all running requests.
        """

    @property
    def price(self) -> float:
        """Price of the latest step that had drafts to cut."""

    def native_tokens(self) -> int:
        """Return how many tokens vLLM's own drafter is to propose next. Call once per step."""

    def head_tokens(self) -> int:
        """Return how many tokens the head is to make on the device in the next step.

        That is for steps that are launched ahead; 0 if that pass does not pay.
        """
