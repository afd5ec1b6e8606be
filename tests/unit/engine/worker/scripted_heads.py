"""Heads that draft a fixed text, and a batch that gets tokens step by step."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from engine.drafting import Control
from engine.worker.head import HeadRun, StepStates
from engine.worker.heads import Heads
from engine.worker.trial import Conditions, LoadedHead

STATES = StepStates(torch.zeros(64, 1), None)


class ScriptedHead:
    """Drafts the next three numbers, each right with a chance that it also states.

    Attributes:
        asked: The rows of each call.
        seconds: How long a call takes at least.
        error: What it raises instead.
    """

    def __init__(self, chance: float, seed: int = 0) -> None:
        self.chance = chance
        self.asked: list[list[int]] = []
        self.seconds = 0.0
        self.error: Exception | None = None
        self._draws = torch.Generator().manual_seed(seed)

    def guess(
        self, states: Any, rows: Sequence[int], tokens: Sequence[int], n: int, view: Any
    ) -> list[tuple[list[int], list[float]]]:
        if self.error is not None:
            raise self.error
        self.asked.append(list(rows))
        time.sleep(self.seconds)
        right = torch.rand(len(tokens), n, generator=self._draws) < self.chance
        return [
            ([token + 1 + at if hit else 0 for at, hit in enumerate(row)], [self.chance] * n)
            for token, row in zip(tokens, right.tolist(), strict=True)
        ]


def loaded(chance: float, version: str, seed: int = 0) -> LoadedHead:
    head: Any = ScriptedHead(chance, seed)
    return LoadedHead(head, 3, None, version, f"head-{version}")


def scripted(loaded: LoadedHead) -> ScriptedHead:
    head: Any = loaded.head
    assert isinstance(head, ScriptedHead)
    return head


class Batch:
    """Requests whose text counts up; `run` gives each of them one token."""

    def __init__(self, *requests: str) -> None:
        self.requests = list(requests)
        self._newest = 10
        self.control: Callable[[str], Control] = lambda _: Control()

    def run(self, serving: LoadedHead) -> HeadRun:
        """Return the serving head's run of the next step."""
        self._newest += 1
        sampled = [[self._newest] for _ in self.requests]
        return HeadRun(
            serving.head, serving.most, STATES, list(self.requests), sampled, memory=serving.memory
        )

    def play(self, heads: Heads, steps: int, conditions: Conditions | None = None) -> float:
        """Run steps; return the seconds of passes."""
        seconds = 0.0
        for _ in range(steps):
            assert heads.serving is not None
            seconds += heads.try_challenger(
                self.run(heads.serving), conditions or Conditions(0.2, 0.0), self.control, ignore
            )
        return seconds


def ignore(_: object) -> None:
    """Note no prompts."""
