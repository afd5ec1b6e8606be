"""Requests, a head and a drafter over the real suffix index, for the tests of drafting."""

from collections.abc import Callable, Sequence

import numpy as np

from engine.drafting import Beginning, Control, Drafter, SuffixSource
from engine.policy import Gate, Limits, Profile
from engine.suffix import SuffixIndex

FREE: Profile = [(1, 1.0)]  # tokens cost nothing; only the least price holds
CHEAP: Profile = [(1, 1.0), (11, 2.0)]
DEAR: Profile = [(1, 1.0), (2, 4.0)]
PROMPT = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]


def suffix() -> SuffixSource:
    return SuffixSource(SuffixIndex(1 << 22, salt=1))


def begin(
    control: Control = Control(),  # noqa: B008  # frozen
    *,
    left: int = 10_000,
    prompt: Sequence[int] = PROMPT,
) -> Callable[[str], Beginning]:
    return lambda _: Beginning(np.array(prompt, np.int32), control, left)


def drafter(
    source: SuffixSource | None,
    cost: Profile = FREE,
    *,
    most: int = 8,
    passes: Profile = ((1, 1e-9),),
    limits: Limits = Limits(min_acceptance_ratio=0.0),  # noqa: B008  # frozen
) -> Drafter:
    gate = Gate(cost, passes, limits=limits)
    return Drafter(source, gate, most=most, native_most=3, head_most=3)


class Head:
    """A head with scripted tokens and confidence; records for which sequences it ran."""

    def __init__(self, tokens: Sequence[int] = (7, 8, 9), confidence: float = 0.9) -> None:
        self.tokens = list(tokens)
        self.confidence = confidence
        self.ran: list[list[int]] = []

    def __call__(self, sequences: Sequence[int], /) -> list[tuple[list[int], list[float]]]:
        self.ran.append(list(sequences))
        return [(self.tokens, [self.confidence] * len(self.tokens)) for _ in sequences]
