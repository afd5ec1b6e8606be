"""Compares an answer with the one without drafts, token by token. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.protocol import PlainAnswer

MARGINS = {"float32": 0.001, "bfloat16": 0.5, "float16": 0.06, "fp8": 1.0}
"""By dtype: how far two log-probabilities may be apart and still change places (docs/lossless.md).

The difference of two log-probabilities is that of the logits.
"""

Verdict = Literal["near_tie", "differs", "unclear"]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of two answers.

    Attributes:
        place: Tokens before it.
        margin: Log-probability of the plain token minus that of the other one, in nats; None if one
            answer ends there.
        is_least: The other token is not among the likeliest, so its margin is at least this.
    """

    place: int
    margin: float | None
    is_least: bool = False

    def verdict(self, most: float) -> Verdict:
        """What it means where a near-tie has a margin of at most `most`.

        `unclear`: the other token is none of the likeliest and they are all close, or less likely
        than the plain one. The latter happens where a penalty or grammar decided, since vLLM
        reports log-probabilities without these.
        """
        if self.margin is None or self.margin > most:
            return "differs"
        return "unclear" if self.is_least else "near_tie"


def first_difference(drafted: Sequence[int], plain: PlainAnswer) -> Difference | None:
    """Return where two answers part; None if they are the same.

    Args:
        drafted: Token ids of the answer with drafts.
        plain: The answer without, of at most as many tokens.
    """
    for place, (ours, theirs) in enumerate(zip(plain.ids, drafted, strict=False)):
        if ours != theirs:
            return _difference(place, plain, theirs)
    # An accepted draft may go on behind a stop string, within its step; vLLM cuts only the text.
    if len(plain.ids) < len(drafted) and not plain.hit_stop:
        return Difference(len(plain.ids), None)
    return None


def _difference(place: int, plain: PlainAnswer, other: int) -> Difference:
    logprobs = plain.logprobs[place]
    own = logprobs[plain.ids[place]]
    if other in logprobs:
        return Difference(place, own - logprobs[other])
    return Difference(place, own - min(logprobs.values()), is_least=True)


def source_at(place: int, sources: Sequence[str]) -> str:
    """Return who drafted the token at `place`, or the last draft before it; else `target`."""
    drafted = (source for source in reversed(sources[: place + 1]) if source != "target")
    return next(drafted, "target")
