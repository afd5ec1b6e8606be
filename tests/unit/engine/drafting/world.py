"""Random steps: requests that come and go, a head, a drafter of vLLM, and texts with repetition."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from engine.drafting import Beginning, Control, Origin
from engine.policy import Load
from tests.unit.engine.drafting.scripted import Verified

_STEPS = 500


@dataclass(frozen=True, slots=True)
class Drafted:
    """One sequence of a step: what it drafted, and what it was allowed and offered."""

    tokens: list[int]
    origin: Origin | None
    control: Control
    left: int
    native: list[int]
    head: list[int]


class World:
    """The same requests, texts and proposals for the same seed.

    Attributes:
        asked: For which sequences the head ran, by step.
    """

    def __init__(self, seed: int) -> None:
        self.asked: list[list[int]] = []
        self._random = Random(seed)
        self._count = 0
        self._names: list[str] = []
        self._texts: dict[str, list[int]] = {}
        self._begun: dict[str, Beginning] = {}
        self._got: dict[str, int] = {}
        self._phrases = [
            [self._random.randrange(300) for _ in range(self._random.randint(2, 9))]
            for _ in range(12)
        ]

    def play(self, drafter: Verified) -> list[Drafted]:
        """Play some hundred steps; returns all sequences that got tokens."""
        return [drafted for _ in range(_STEPS) for drafted in self._step(drafter)]

    def _begin(self, name: str) -> Beginning:
        random = self._random
        control = Control(
            tenant=random.choice("ab"),
            most=random.choice([None, None, None, 0, 2]),
            suffix=random.random() < 0.9,
            head=random.random() < 0.9,
            native=random.random() < 0.9,
            price=random.choice([None, None, None, None, 0.0, 0.3]),
            temperature=random.choice([0.0, 0.0, 0.3, 1.0]),
            prediction=tuple(self._phrases[0] + self._phrases[1]) if random.random() < 0.3 else (),
        )
        tokens = np.array(self._texts[name][:20], np.int32)
        self._begun[name] = Beginning(tokens, control, random.choice([5, 20, 1000]))
        return self._begun[name]

    def _step(self, drafter: Verified) -> list[Drafted]:
        random = self._random
        gone = [name for name in self._names if random.random() < 0.03]
        drafter.end(gone, keep=random.random() < 0.5)
        self._names = [name for name in self._names if name not in gone]
        while len(self._names) < 2 or (len(self._names) < 7 and random.random() < 0.1):
            self._count += 1
            self._names.append(f"request {self._count}")
            self._texts[self._names[-1]] = [1, *self._phrases[self._count % 12], 2] * 3
            self._got[self._names[-1]] = 0
        random.shuffle(self._names)

        sampled = [self._more(name) for name in self._names]
        coming = [self._next(name)[:3] for name in self._names]

        def head(sequences: Sequence[int], /) -> list[tuple[list[int], list[float]]]:
            self.asked.append(list(sequences))
            assert all(sampled[at] for at in sequences)
            return [(coming[at], [random.random() ** 0.3 for _ in coming[at]]) for at in sequences]

        native = [tokens[: random.randint(0, 3)] for tokens in coming]
        drafts = drafter.step(
            self._names,
            sampled,
            self._begin,
            native=native if random.random() < 0.5 else None,
            head=head if random.random() < 0.8 else None,
            load=Load(
                0,
                prefill_tokens=random.choice([0, 0, 0, 0, 40]),
                context_tokens=random.randint(0, 5000),
                waiting=random.choice([0, 0, 0, 2]),
            ),
        )
        assert len(drafts.tokens) == len(drafts.origins) == len(self._names)
        played = []
        for at, name in enumerate(self._names):
            if not sampled[at]:
                assert drafts.tokens[at] == []
                continue
            self._got[name] += len(sampled[at])
            begun = self._begun[name]
            left = begun.left - self._got[name]
            played.append(
                Drafted(
                    drafts.tokens[at],
                    drafts.origins[at],
                    begun.control,
                    left,
                    native[at],
                    coming[at],
                )
            )
        return played

    def _more(self, name: str) -> list[int]:
        if self._random.random() < 0.1:
            return []
        more = self._next(name)[: self._random.choice([1, 1, 2, 4])]
        self._texts[name] += more
        return more

    def _next(self, name: str) -> list[int]:
        """What comes next: the rest of a phrase that has begun, a new one, or noise."""
        last = self._texts[name][-1]
        for phrase in self._phrases:
            if last in phrase[:-1] and self._random.random() < 0.9:
                return [*phrase[phrase.index(last) + 1 :], 7, 7, 7]
        return [*self._random.choice(self._phrases), self._random.randrange(300), 8, 9]
