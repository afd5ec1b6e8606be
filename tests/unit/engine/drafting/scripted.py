"""Requests, a head and a drafter over the real suffix index, for the tests of drafting."""

from collections.abc import Callable, Sequence

import numpy as np

from engine.drafting import Beginning, Control, Drafter, HeadPass, InFlight, StepDrafts
from engine.policy import Gate, Load, Profile
from engine.suffix import SuffixIndex

FREE: Profile = [(1, 1.0)]  # tokens cost nothing; only the least price holds
CHEAP: Profile = [(1, 1.0), (11, 2.0)]
DEAR: Profile = [(1, 1.0), (2, 4.0)]
PROMPT = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]


def suffix() -> SuffixIndex:
    return SuffixIndex(1 << 22, salt=1)


def begin(
    control: Control = Control(),  # noqa: B008  # frozen
    *,
    left: int = 10_000,
    prompt: Sequence[int] = PROMPT,
) -> Callable[[str], Beginning]:
    return lambda _: Beginning(np.array(prompt, np.int32), control, left)


class Verified(Drafter):
    """A drafter whose drafts were all verified whole, where a test does not say otherwise."""

    def __init__(self, index: SuffixIndex | None, gate: Gate, **limits: int) -> None:
        super().__init__(index, gate, **limits)
        self._drafted: dict[str, int] = {}

    def step(
        self,
        requests: Sequence[str],
        sampled: Sequence[Sequence[int]],
        begin: Callable[[str], Beginning],
        *,
        verified: Sequence[int] | None = None,
        native: Sequence[Sequence[int]] | None = None,
        head: HeadPass | None = None,
        load: Load = Load(0),  # noqa: B008  # read-only
        in_flight: InFlight | None = None,
    ) -> StepDrafts:
        whole = [self._drafted.get(name, 0) for name in requests]
        drafts = super().step(
            requests,
            sampled,
            begin,
            verified=whole if verified is None else verified,
            native=native,
            head=head,
            load=load,
            in_flight=in_flight,
        )
        self._drafted = {
            name: len(tokens) for name, tokens in zip(requests, drafts.tokens, strict=True)
        }
        return drafts


def drafter(
    index: SuffixIndex | None,
    cost: Profile = FREE,
    *,
    most: int = 8,
    passes: Profile = ((1, 1e-9),),
    max_batch_size: int | None = None,
) -> Verified:
    gate = Gate(cost, passes, max_batch_size=max_batch_size)
    return Verified(index, gate, most=most, native_most=3, head_most=3)


class Head:
    """A head with scripted tokens and confidence; records for which sequences it ran."""

    def __init__(self, tokens: Sequence[int] = (7, 8, 9), confidence: float = 0.9) -> None:
        self.tokens = list(tokens)
        self.confidence = confidence
        self.ran: list[list[int]] = []

    def __call__(self, sequences: Sequence[int], /) -> list[tuple[list[int], list[float]]]:
        self.ran.append(list(sequences))
        return [(self.tokens, [self.confidence] * len(self.tokens)) for _ in sequences]
