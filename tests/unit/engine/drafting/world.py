"""Steps at random: requests that come and go, a head, a drafter of vLLM, and sources for them."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

import numpy as np

from engine.drafting import Beginning, Control, HeadPass, StepDrafts, SuffixSource
from engine.policy import Load
from engine.suffix import SuffixIndex
from tests.unit.engine.drafting.scripted import Proposed

_STEPS = 300


class Drafting(Protocol):
    """Both of them."""

    def step(
        self,
        names: Sequence[str],
        sampled: Sequence[Sequence[int]],
        begin: "World",
        *,
        native: Sequence[Sequence[int]] | None,
        head: HeadPass | None,
        load: Load,
    ) -> StepDrafts: ...

    def end(self, names: Sequence[str], *, keep: bool) -> None: ...


class OnPython:
    """The suffix index, called row by row: without a core that a step could ask itself."""

    core = None

    def __init__(self) -> None:
        source = SuffixSource(SuffixIndex(1 << 24, salt=1))
        self.begin, self.advance = source.begin, source.advance
        self.go_on, self.end = source.go_on, source.end


class Dice:
    """A source whose drafts are drawn at random, the same for the same calls."""

    core = None

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def begin(self, request: str, control: Control, tokens: object) -> None:
        pass

    def advance(self, request: str, tokens: Sequence[int], most: int, floor: float) -> Proposed:
        return self._draw(most, 1.0, floor)

    def go_on(
        self, request: str, tokens: Sequence[int], survival: float, most: int, *, floor: float
    ) -> Proposed:
        return self._draw(most, survival, floor)

    def end(self, request: str, *, keep: bool) -> None:
        pass

    def _draw(self, most: int, reached: float, floor: float) -> Proposed:
        random, survival = self._random, []
        for _ in range(random.randint(0, most)):
            reached *= random.choice([1.0, random.random() ** 0.2])
            if reached < floor:
                break
            survival.append(reached)
        tokens = [random.randrange(9) for _ in survival]
        return Proposed(tokens, survival, random.choice([0, random.randint(0, len(tokens))]))


class World:
    """Requests that come, write what repeats itself, and go; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._count = 0
        self._names: list[str] = []
        self._texts: dict[str, list[int]] = {}
        self._phrases = [
            [self._random.randrange(300) for _ in range(self._random.randint(2, 9))]
            for _ in range(12)
        ]

    def __call__(self, name: str) -> Beginning:
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
        left = random.choice([5, 20, 1000])
        return Beginning(np.array(self._texts[name][:20], np.int32), control, left)

    def steps(self, drafting: Drafting) -> list[tuple[StepDrafts, list[list[int]]]]:
        """Play so many steps; returns the drafts, and for which rows the head ran."""
        return [self._step(drafting) for _ in range(_STEPS)]

    def _step(self, drafting: Drafting) -> tuple[StepDrafts, list[list[int]]]:
        random = self._random
        gone = [name for name in self._names if random.random() < 0.03]
        drafting.end(gone, keep=random.random() < 0.5)
        self._names = [name for name in self._names if name not in gone]
        while len(self._names) < 2 or (len(self._names) < 7 and random.random() < 0.1):
            self._count += 1
            self._names.append(f"request {self._count}")
            self._texts[self._names[-1]] = [1, *self._phrases[self._count % 12], 2] * 3
        random.shuffle(self._names)

        sampled = [self._more(name) for name in self._names]
        coming = [self._next(name)[:3] for name in self._names]
        ran: list[list[int]] = []

        def head(rows: Sequence[int]) -> list[tuple[list[int], list[float]]]:
            ran.append(list(rows))
            return [(coming[row], [random.random() ** 0.3 for _ in coming[row]]) for row in rows]

        native = [tokens[: random.randint(0, 3)] for tokens in coming]
        drafts = drafting.step(
            self._names,
            sampled,
            self,
            native=native if random.random() < 0.5 else None,
            head=head if random.random() < 0.8 else None,
            load=Load(
                0,
                prefill_tokens=random.choice([0, 0, 0, 0, 40]),
                context_tokens=random.randint(0, 5000),
                waiting=random.choice([0, 0, 0, 2]),
            ),
        )
        return drafts, ran

    def _more(self, name: str) -> list[int]:
        if self._random.random() < 0.1:
            return []
        more = self._next(name)[: self._random.choice([1, 1, 2, 4])]
        self._texts[name] += more
        return more

    def _next(self, name: str) -> list[int]:
        """What comes next: the rest of a phrase that has begun, or a new one, or noise."""
        last = self._texts[name][-1]
        for phrase in self._phrases:
            if last in phrase[:-1] and self._random.random() < 0.9:
                return [*phrase[phrase.index(last) + 1 :], 7, 7, 7]
        return [*self._random.choice(self._phrases), self._random.randrange(300), 8, 9]
