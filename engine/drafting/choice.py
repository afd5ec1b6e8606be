"""Asks the sources in a step, and gives each row the draft that is worth most."""

from collections.abc import Callable, Sequence

from engine.drafting.candidate import Candidate
from engine.drafting.origin import HEAD, NATIVE, PREDICTION, SUFFIX, Origin
from engine.drafting.passes import ForwardDrafter
from engine.drafting.request import Request
from engine.drafting.rows import HeadPass
from engine.policy import Price, paying

_SUFFIX, _PREDICTION, _NATIVE, _HEAD = (Origin(code) for code in (SUFFIX, PREDICTION, NATIVE, HEAD))


class Choice:
    """Chooses between the sources, at one price for all rows of a step.

    Args:
        price: What a draft token has to be worth.
        native: vLLM's own drafter.
        head: The draft head.
        head_time: What a pass of the head over so many rows takes, in steps of one token.
    """

    def __init__(
        self,
        price: Price,
        *,
        native: ForwardDrafter,
        head: ForwardDrafter,
        head_time: Callable[[int], float],
    ) -> None:
        self._price = price
        self._native = native
        self._head = head
        self._head_time = head_time

    def make(
        self,
        rows: Sequence[Request],
        *,
        native: Sequence[Sequence[int]] | None,
        head: HeadPass | None,
    ) -> float:
        """Set `best` of each row, down to the lowest price of the step, and uncut.

        Args:
            rows: Those that got tokens.
            native: What vLLM's own drafter proposes, by place in the step; None where it did not
                run.
            head: Runs the draft head, if it is worth it; None where there is nothing to run it on.

        Returns:
            The price at which the drafts are to be cut.
        """
        floor = self._price.floor(len(rows))
        _ask_suffix(rows, floor)
        price = self._settle(rows)
        if native is not None:
            self._judge_native(rows, native, price)
            price = self._settle(rows)
        if head is not None and self._run_head(rows, head, price=price, floor=floor):
            price = self._settle(rows)
        return price

    def _settle(self, rows: Sequence[Request]) -> float:
        drafts = [row.best.survival for row in rows if row.best is not None]
        return self._price.settle(drafts, len(rows))

    def _judge_native(
        self, rows: Sequence[Request], native: Sequence[Sequence[int]], price: float
    ) -> None:
        """Take what vLLM's own drafter proposes where it is worth more."""
        for row in rows:
            tokens = native[row.at][: self._native.most]
            if row.native is None or not tokens:
                continue
            survival = row.native.propose(tokens)
            room = max(0, row.room)
            row.prefer(Candidate(list(tokens[:room]), survival[:room], _NATIVE), price)

    def _run_head(
        self, rows: Sequence[Request], head: HeadPass, *, price: float, floor: float
    ) -> bool:
        """Run the head where it is likely to bring more than its pass costs; whether it ran."""
        able = [row for row in rows if row.head is not None and row.room > 0]
        gains = [_expected_gain(row, price) for row in able]
        wanted = [row for row, gain in zip(able, gains, strict=True) if gain > 0]
        cost = self._price.of_time(self._head_time(len(wanted)), len(rows))
        if not self._head.runs(pays=sum(gains) > cost) or not able:
            return False
        asked = wanted or able
        guesses = head([row.at for row in asked])
        for row, (tokens, confidence) in zip(asked, guesses, strict=True):
            assert row.head is not None
            survival = row.head.propose(tokens, confidence)
            row.prefer(_head_draft(row, tokens, survival, floor), price)
        return True


def _ask_suffix(rows: Sequence[Request], floor: float) -> None:
    """Tell the suffix source what was generated, and ask it for the rows that may have a draft."""
    for row in rows:
        if row.suffix is None:
            continue
        most = row.room if row.room > 0 and row.control.suffix else 0
        proposal = row.suffix.advance(row.name, row.sampled, most, floor)
        tokens = proposal.tokens
        if tokens:
            origin = _origin(len(tokens), proposal.predicted)
            row.best = Candidate(tokens, proposal.survival, origin)


def _expected_gain(row: Request, price: float) -> float:
    """What the head is likely to bring a row above what the row has; not below 0."""
    assert row.head is not None
    expected = row.head.expected_gain(row.room, price)
    if row.best is None or not expected:
        return expected
    return max(0.0, expected - row.best.gain(price))


def _head_draft(
    row: Request, tokens: Sequence[int], survival: list[float], floor: float
) -> Candidate:
    """A draft of the head's tokens; where they end, or are no longer sure, the index goes on."""
    length = paying(survival, floor)
    if row.suffix is not None and 0 < length < row.room and row.control.suffix:
        sure = tokens[:length]
        reached = survival[length - 1]
        more = row.suffix.go_on(row.name, sure, reached, row.room - length, floor=floor)
        further = more.tokens
        if further:
            origin = Origin(HEAD, SUFFIX, length)
            return Candidate([*sure, *further], [*survival[:length], *more.survival], origin)
    return Candidate(list(tokens[: row.room]), survival[: row.room], _HEAD)


def _origin(length: int, followed: int) -> Origin:
    """Whose a draft of the suffix index is, whose first `followed` tokens follow a prediction."""
    if not followed:
        return _SUFFIX
    if followed >= length:
        return _PREDICTION
    return Origin(PREDICTION, SUFFIX, followed)
