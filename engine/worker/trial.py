"""Tries a head beside the serving one: both draft at the same places, and what comes scores both.

The tokens of a trial are never verified, so it cannot change what is generated.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.drafting import Control
from engine.heads import DraftHead, HeadMemory
from engine.policy import Contest, ForwardDrafter, Proposals, paying
from engine.worker.head import HeadRun

_EVERY = 4
"""Steps from one comparison to the next."""

_MOST_ROWS = 4
"""Sequences of a comparison: two passes of so few cost about a tenth of a step, in one of four."""

_FREE_SECONDS, _SHARE = 1.0, 0.03
"""The passes of a trial may take a second, and then this share of the time since it began."""

_RATE = 1.0 / 16.0
"""Of the moving average of a pass's time."""


@dataclass(frozen=True, slots=True)
class LoadedHead:
    """A head that is ready to draft.

    Attributes:
        head: The head.
        most: Tokens that a pass drafts.
        memory: Of a head with a window.
        version: Names its configuration and weights.
        name: Of its folder.
        folder: Where it was loaded from; links are resolved.
    """

    head: DraftHead
    most: int
    memory: HeadMemory | None = None
    version: str = ""
    name: str = ""
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a draft is worth in this step.

    Attributes:
        price: Survival that pays for a token, 0 to 1; above 1 nothing pays.
        goodput: Tokens that a second yields; 0 while unknown.
    """

    price: float
    goodput: float


@dataclass(slots=True)
class _Pair:
    """Drafts of both heads for one request, at the same place."""

    price: float
    drafts: tuple[Sequence[int], ...]
    survivals: tuple[Sequence[float], ...]
    seen: list[int] = field(default_factory=list)


class _Side:
    """What is learnt of one of the heads."""

    def __init__(self, loaded: LoadedHead) -> None:
        self._drafter = ForwardDrafter(loaded.most, calibrated=True)
        self._proposals: dict[str, Proposals] = {}
        self.seconds: float | None = None  # of a pass, for each sequence

    def time(self, seconds: float) -> None:
        known = self.seconds
        self.seconds = seconds if known is None else known + _RATE * (seconds - known)

    def propose(
        self, request: str, temperature: float, tokens: Sequence[int], confidence: Sequence[float]
    ) -> list[float]:
        """Return the calibrated survival of a draft."""
        if request not in self._proposals:
            self._proposals[request] = self._drafter.proposals(temperature)
        return self._proposals[request].propose(tokens, confidence)

    def worth(self, request: str, pair: _Pair, at: int, goodput: float) -> float:
        """Score a draft by what came; return what it would have gained, in tokens."""
        self._proposals[request].learn(pair.seen)
        bought = paying(pair.survivals[at], pair.price)
        accepted = 0
        while accepted < bought and pair.drafts[at][accepted] == pair.seen[accepted]:
            accepted += 1
        return accepted - pair.price * bought - (self.seconds or 0.0) * goodput

    def forget(self, request: str) -> None:
        self._proposals.pop(request, None)


class Trial:
    """A challenger beside the serving head, until a `Contest` has a verdict.

    Attributes:
        serving: The head that drafts.
        challenger: The head that is compared with it.
        is_guard: Whether the challenger is the previous head, which returns if the one that
            replaced it is worse.
        contest: Of the challenger's worth: accepted tokens less the price of those that would be
            verified, and less what the time of the pass is worth.
        late: Requests that ran before the challenger saw them, so that it knows less of them.
            None until the first step.
    """

    def __init__(
        self,
        serving: LoadedHead,
        challenger: LoadedHead,
        *,
        is_guard: bool = False,
        late: Collection[str] | None = None,
    ) -> None:
        self.serving = serving
        self.challenger = challenger
        self.is_guard = is_guard
        self.contest = Contest()
        self.late = None if late is None else set(late)
        self._sides = (_Side(serving), _Side(challenger))
        self._longest = max(serving.most, challenger.most)
        self._pairs: dict[str, _Pair] = {}
        self._steps = 0
        self._began = time.perf_counter()
        self._spent_seconds = 0.0

    @property
    def role(self) -> str:
        """What the challenger is: `challenger` or `guard`."""
        return "guard" if self.is_guard else "challenger"

    def step(
        self,
        run: HeadRun,
        conditions: Conditions,
        control: Callable[[str], Control],
        note_prompts: Callable[[HeadMemory], None],
    ) -> float:
        """Score the drafts of earlier steps by this one's tokens; in some steps, draft again.

        Args:
            run: The serving head's, of this step; it may have run.
            conditions: Of this step.
            control: Returns what a request asks for.
            note_prompts: Has a memory record the step's prompts, if it has any.

        Returns:
            How long the passes took, in seconds.
        """
        memory = self.challenger.memory
        if memory is not None:
            note_prompts(memory)
        own = HeadRun(
            self.challenger.head,
            self.challenger.most,
            run.states,
            run.requests,
            run.sampled,
            memory=memory,
        )
        if self.late is None:
            self.late = set(run.requests)
        self._score(run, conditions.goodput)
        self._steps += 1
        if self._steps % _EVERY or conditions.price >= 1.0 or self._has_spent_its_share():
            return 0.0
        rows = self._choose(run, control)
        return self._draft((run, own), rows, conditions.price, control) if rows else 0.0

    def forget(self, requests: Collection[str]) -> None:
        """Forget requests that finished or were preempted, with drafts that have no outcome yet."""
        if self.challenger.memory is not None:
            self.challenger.memory.forget(requests)
        for request in requests:
            self._pairs.pop(request, None)
            for side in self._sides:
                side.forget(request)
        if self.late is not None:
            self.late.difference_update(requests)

    def clear(self) -> None:
        """Forget what was drafted and seen, as after steps that were missed."""
        if self.challenger.memory is not None:
            self.challenger.memory.clear()
        self._pairs.clear()

    def _score(self, run: HeadRun, goodput: float) -> None:
        for request, tokens in zip(run.requests, run.sampled, strict=True):
            pair = self._pairs.get(request)
            if pair is None:
                continue
            pair.seen += tokens
            if len(pair.seen) >= self._longest:
                del self._pairs[request]
                ours, others = (
                    side.worth(request, pair, at, goodput) for at, side in enumerate(self._sides)
                )
                self.contest.add(others - ours)

    def _choose(self, run: HeadRun, control: Callable[[str], Control]) -> list[int]:
        """Return a few sequences without an open pair, others each time; ascending."""
        assert self.late is not None
        free = [
            row
            for row, (request, tokens) in enumerate(zip(run.requests, run.sampled, strict=True))
            if tokens and request not in self._pairs and request not in self.late
            if control(request).head and control(request).most != 0
        ]
        first = self._steps // _EVERY * _MOST_ROWS % max(1, len(free))
        return sorted((free[first:] + free[:first])[:_MOST_ROWS])

    def _draft(
        self,
        runs: Sequence[HeadRun],
        rows: Sequence[int],
        price: float,
        control: Callable[[str], Control],
    ) -> float:
        """Run both heads for these sequences; they take turns in coming first."""
        began = time.perf_counter()
        swaps = bool(self._steps // _EVERY % 2)
        guesses = [run(rows) for run in (reversed(runs) if swaps else runs)]
        if swaps:
            guesses.reverse()
        for side, run in zip(self._sides, runs, strict=True):
            side.time(run.seconds / len(rows))
        for row, *of_both in zip(rows, *guesses, strict=True):
            request = runs[0].requests[row]
            asked = control(request)
            self._pairs[request] = _Pair(
                price if asked.price is None else asked.price,
                tuple(tokens for tokens, _ in of_both),
                tuple(
                    side.propose(request, asked.temperature, *guess)
                    for side, guess in zip(self._sides, of_both, strict=True)
                ),
            )
        seconds = time.perf_counter() - began
        self._spent_seconds += seconds
        return seconds

    def _has_spent_its_share(self) -> bool:
        allowed = _FREE_SECONDS + _SHARE * (time.perf_counter() - self._began)
        return self._spent_seconds > allowed
