"""Compares two answers token by token. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from gateway.verify.ask import Asked, Token, VerifyError


class Outcome(StrEnum):
    """What became of a prompt.

    `NEAR_TIE`: the answers part where the target found both tokens almost equally likely, which
    the order of its sums decides. `DIFFERS`: they part elsewhere. `SKIPPED`: the server refuses
    the prompt both times.
    """

    SAME = "same"
    NEAR_TIE = "near_tie"
    DIFFERS = "differs"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """Of one comparison.

    Attributes:
        outcome: What was found.
        place: Tokens before the first difference; None without one.
        margin: Log-probability of the plain answer's token there minus that of the other answer's;
            None if that was not among the likeliest.
        why: What there is to say, without any text of the answers.
    """

    outcome: Outcome
    place: int | None = None
    margin: float | None = None
    why: str = ""


def compare(plain: Asked, drafted: Asked, *, margin: float) -> Result:
    """Compare the target's own answer with one for which tokens were drafted.

    Args:
        plain: Without drafts.
        drafted: With drafts.
        margin: Largest margin of a near-tie.

    Raises:
        VerifyError: An answer has no log-probabilities.
    """
    refused = [asked.refusal is not None for asked in (plain, drafted)]
    if all(refused):
        return Result(Outcome.SKIPPED, why=plain.refusal or "")
    if any(refused):
        return Result(Outcome.DIFFERS, why=f"refused once: {plain.refusal or drafted.refusal}")
    for asked in (plain, drafted):
        if asked.message and not asked.tokens:
            raise VerifyError("the server sends no log-probabilities, without which nothing shows")
    for place, (ours, others) in enumerate(zip_longest(plain.tokens, drafted.tokens)):
        if ours is None or others is None:
            return Result(Outcome.DIFFERS, place, why="one of the answers is longer")
        if ours.text != others.text:
            return _at(place, ours, others, margin)
    if plain.finish_reason != drafted.finish_reason:
        reasons = f"finish_reason is {plain.finish_reason}, then {drafted.finish_reason}"
        return Result(Outcome.DIFFERS, len(plain.tokens), why=reasons)
    if plain.message != drafted.message:
        return Result(Outcome.DIFFERS, len(plain.tokens), why="same tokens, another message")
    return Result(Outcome.SAME)


def _at(place: int, plain: Token, drafted: Token, margin: float) -> Result:
    known = plain.alternatives.get(drafted.text)
    if known is None:
        return Result(Outcome.DIFFERS, place, why="a token that is not among the likeliest")
    found = plain.logprob - known
    if abs(found) <= margin:
        return Result(Outcome.NEAR_TIE, place, found)
    # Greedy decoding passes over a likelier token only where a grammar or a penalty forbids it.
    why = "a token that is less likely" if found > 0 else "a likelier token that was forbidden"
    return Result(Outcome.DIFFERS, place, found, why=why)
