"""The suffix index once more, slow and obvious: what the core has to agree with.

Texts are lists, tables are dicts, and there is no bound on memory: nothing is evicted. Numbers are
float32 as in the core, so that votes that are even there are even here. Two short cuts of the core
are part of what it promises and are modelled: a context is known by its slot, with room for four
places, and a table has `SLOTS` slots as long as its text is short.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.unit.engine.suffix.twin_calibration import HALF, TABLES, Float, Fortune, Guess, Tenant
from tests.unit.engine.suffix.twin_store import CONTEXTS, GAP, LONGEST_MATCH, Hash, Match, Store

# What core/ may change, by the file it stands in.
QUOTA, ALIGNED_QUOTA, MOST_MATCHES = 8, 2, 26  # matcher.cpp
LONG_MATCH, ANCHOR_LIFE = 8, 32
HOTTEST = 2.0
BEFORE, BEHIND = 4, 64
PREDICTED_LENGTH = 16
CANDIDATES = 4  # draft.cpp
RIVAL_WEIGHT = 0.02
SCORED = 64
LEAST_SURVIVAL = 1e-6

OLDER, OWN, OWN_ALIGNED, OLDER_ALIGNED = range(4)

ONE = Float(1)


def log1p(count: int) -> Any:
    return np.log(Float(1 + min(count, 256)), dtype=Float)


def length_class(length: int) -> int:
    bounds = (1, 2, 3, 4, 5, 7, 9, 12, 16, 24, 32, 64)
    return sum(length >= bound for bound in bounds)


@dataclass(slots=True)
class Drafted:
    """A draft, what it stands behind, and the choices that its outcome will be learnt from."""

    behind: list[int] = field(default_factory=list)
    behind_survival: Any = ONE
    tokens: list[int] = field(default_factory=list)
    survival: list[Any] = field(default_factory=list)
    share: list[Any] = field(default_factory=list)
    predicted: int = 0
    asked: bool = False
    choices: list[tuple[Guess, Guess | None]] = field(default_factory=list)


class Request:
    """One running request: its texts, its matches, its last draft."""

    def __init__(
        self, tenant: Tenant, hashed: Hash, prompt: Sequence[int], temperature: float
    ) -> None:
        self.tenant = tenant
        self.own = Store(hashed)
        self.own.append(prompt)
        self.answer = len(prompt)
        self.prediction: Store | None = None
        self.recent = list(prompt)
        self.matches: list[Match] = []
        self.anchor: tuple[Store, int] | None = None
        self.anchor_age = 0
        self.fortune = Fortune(Float(min(temperature, HOTTEST)))
        self.pending = Drafted()

    def advance(self, token: int) -> None:
        """One more token was generated: learn which matches were right, and keep those."""
        for match in self.matches:
            self.tenant.reliability.learn(match, match.vote() == token)
        self._walk(token, [match.vote() for match in self.matches])

    def _walk(self, token: int, votes: list[int]) -> None:
        self.anchor_age += 1
        if self.matches:
            longest = max(self.matches, key=lambda match: match.length)
            if longest.length >= LONG_MATCH:
                self.anchor, self.anchor_age = (longest.store, longest.next + 1), 0
        agreeing = zip(self.matches, votes, strict=True)
        self.matches = [match.follow() for match, vote in agreeing if vote == token]
        self.recent.append(token)

    def foreseen(self, tokens: list[int]) -> "Request":
        """The same request with these tokens behind it, though nobody has learnt from them."""
        it = copy(self)
        it.recent = list(self.recent)
        it.search()
        for token in tokens:
            it._walk(token, [it._vote(match, tokens) for match in it.matches])
        it._search_everywhere()
        return it

    def expect(self, prediction: Store) -> None:
        self.prediction = prediction
        self.matches = [Match(prediction, 0, PREDICTED_LENGTH, OWN_ALIGNED, False)]
        self.anchor, self.anchor_age = (prediction, 0), 0

    def search(self) -> None:
        """Find the places where the latest tokens were seen."""
        if [match.next for match in self.matches if match.store is self.prediction] == [0]:
            return
        self.matches = []
        self._search_everywhere()

    def _search_everywhere(self) -> None:
        if self.anchor is not None and self.anchor_age < ANCHOR_LIFE:
            self._search_around(*self.anchor)
        self._search_contexts(self.own, OWN)
        if self.prediction is not None:
            self._search_contexts(self.prediction, OWN)
        if self.tenant.store.text:
            self._search_contexts(self.tenant.store, OLDER)

    def _search_around(self, store: Store, anchor: int) -> None:
        origin = OLDER_ALIGNED if store is self.tenant.store else OWN_ALIGNED
        start = anchor - min(BEFORE, anchor - 1)
        places = range(start, min(start + BEFORE + BEHIND, len(store.text)))
        if anchor == 0 or start >= len(store.text):
            return
        fitting = [place for place in places if store.text[place - 1] == self.recent[-1]]
        for place in fitting[:ALIGNED_QUOTA]:
            self._add(store, place, origin, False, least=1)

    def _search_contexts(self, store: Store, origin: int) -> None:
        limit = min(len(self.matches) + QUOTA, MOST_MATCHES)
        for size in CONTEXTS:
            places = store.places(self.recent, size)
            for place in places:
                if len(self.matches) < limit:
                    self._add(store, place, origin, place == places[0], least=size)

    def _add(self, store: Store, place: int, origin: int, latest: bool, *, least: int) -> None:
        if any(match.store is store and match.next == place for match in self.matches):
            return
        if len(self.matches) == MOST_MATCHES:
            return
        length = 0
        most = min(LONGEST_MATCH, len(self.recent), place)
        while length < most and store.text[place - 1 - length] == self.recent[-1 - length]:
            length += 1
        if length >= least:
            self.matches.append(Match(store, place, length, origin, latest))

    def draft(self, most: int, least_survival: float | None, out: Drafted) -> Drafted:
        """Vote, token by token; each winner's matches go on."""
        live = list(self.matches)
        while len(out.tokens) < most and live:
            votes = [self._vote(match, out.behind + out.tokens) for match in live]
            ballots = self._count(live, votes)
            if not ballots:
                break
            total = self._total(live, votes)
            least = Float(RIVAL_WEIGHT) * ballots[0][1]
            guesses = [
                self._look_at(ballot, total, len(ballots), live, votes, out)
                for place, ballot in enumerate(ballots[:CANDIDATES])
                if place == 0 or ballot[1] > least
            ]
            # Stable: of equals the heavier one.
            guesses.sort(key=lambda guess: guess.score, reverse=True)
            taken, rival = (*guesses, None)[:2]
            assert taken is not None
            if len(out.choices) < SCORED:
                out.choices.append((taken, rival))
            before = out.survival[-1] if out.survival else out.behind_survival
            survival = before / (Float(1) + np.exp(-taken.score, dtype=Float))
            place = len(out.behind) + len(out.tokens)
            price = self.tenant.price(place) if least_survival is None else least_survival
            if survival < Float(price):
                break
            out.share.append((out.share[-1] if out.share else Float(1)) * taken.share)
            out.tokens.append(taken.token)
            out.survival.append(survival)
            agreeing = zip(live, votes, strict=True)
            live = [match.follow() for match, vote in agreeing if vote == taken.token]
            if any(match.store is self.prediction for match in live):
                out.predicted += 1
        return out

    def _vote(self, match: Match, ahead: list[int]) -> int:
        """Its own text goes on with what is drafted."""
        if match.store is self.own and match.next >= len(self.own.text):
            return ahead[match.next - len(self.own.text)]
        return match.vote()

    def _weight(self, match: Match) -> Any:
        odds = self.tenant.reliability.odds(match)
        return odds * odds * odds

    def _total(self, live: list[Match], votes: list[int]) -> Any:
        total = Float(0)
        for match, vote in zip(live, votes, strict=True):
            if vote != GAP:
                total += self._weight(match)
        return total

    def _count(self, live: list[Match], votes: list[int]) -> list[tuple[int, Any]]:
        """Tokens and their weights, heaviest first; of equals the one voted for first."""
        ballots: dict[int, Any] = {}
        for match, vote in zip(live, votes, strict=True):
            if vote != GAP:
                ballots[vote] = ballots.get(vote, Float(0)) + self._weight(match)
        return sorted(ballots.items(), key=lambda ballot: -ballot[1])

    def _look_at(
        self,
        ballot: tuple[int, Any],
        total: Any,
        tokens: int,
        live: list[Match],
        votes: list[int],
        out: Drafted,
    ) -> Guess:
        token, weight = ballot
        voters = [match for match, vote in zip(live, votes, strict=True) if vote == token]
        rivals = [match for match, vote in zip(live, votes, strict=True) if vote != token]
        longest = max(match.length for match in voters)
        depth = len(out.behind) + len(out.tokens)
        own = any(match.origin in (OWN, OWN_ALIGNED) for match in voters)
        aligned = any(match.origin in (OWN_ALIGNED, OLDER_ALIGNED) for match in voters)
        odds = max(self.tenant.reliability.odds(match) for match in voters)
        share = min(max(weight / total, Float(0.01)), Float(0.99))
        length = log1p(longest)
        survival = out.survival[-1] if out.survival else out.behind_survival
        fast = self.fortune.fast - HALF
        dense = [
            HALF * np.log(share / (Float(1) - share)),
            1,
            length,
            Float(0.3) * length * length,
            log1p(len(voters) - 1),
            own,
            np.log(max(survival, Float(LEAST_SURVIVAL))),
            len(live) == 1,
            log1p(max((match.length for match in rivals), default=0)),
            log1p(depth),
            not rivals,
            len(voters) == 1,
            aligned,
            fast,
            self.fortune.slow - HALF,
            HALF * np.log(odds),
            fast if depth == 0 else 0,
            Float(0.3) * fast * length,
            self.fortune.temperature,
            self.fortune.temperature * length,
        ]
        previous = out.tokens[-1] if out.tokens else self.recent[-1]
        now = length_class(longest)
        kind = now * 4 + aligned * 2 + own
        split = (min(tokens, 5) - 1) * 40 + (min(len(voters), 5) - 1) * 8 + min(len(live), 8) - 1
        values = (
            kind * 4 + self.fortune.last,
            split,
            scramble(token, 1024),
            scramble(previous, 512),
            scramble(previous * 31337 + token, 2048),
            scramble(min(longest, 6) * 7919 + token, 1024),
            scramble(now * 7919 + previous, 1024),
        )
        discrete = [sum(TABLES[:table]) + value for table, value in enumerate(values)]
        features = np.array(dense, Float)
        score = self.tenant.regression.score(features, discrete)
        return Guess(token, weight / total, score, features, discrete)


def scramble(value: int, values: int) -> int:
    return (value * 2654435761) % (1 << 32) * values >> 32


class Twin:
    """The same calls as `SuffixIndex`; wrong ones are not asked of it."""

    def __init__(self, salt: int) -> None:
        self._hash = Hash(salt)
        self._tenants: dict[str, Tenant] = {}
        self._requests: dict[str, Request] = {}

    def start(
        self, request: str, tenant: str, prompt_tokens: Sequence[int], *, temperature: float = 0.0
    ) -> None:
        kept = self._tenants.setdefault(tenant, Tenant(Store(self._hash)))
        self._requests[request] = Request(kept, self._hash, prompt_tokens, temperature)

    def extend(self, request: str, tokens: Sequence[int]) -> None:
        it = self._requests[request]
        if it.pending.asked:
            self._score(it, tokens)
        for token in tokens:
            it.advance(token)
        it.own.append(tokens)

    def predict(self, request: str, tokens: Sequence[int]) -> None:
        prediction = Store(self._hash)
        prediction.append(tokens)
        self._requests[request].expect(prediction)

    def propose(self, request: str, max_tokens: int, *, min_survival: float | None) -> Drafted:
        it = self._requests[request]
        it.search()
        it.pending = it.draft(max_tokens, min_survival, Drafted(asked=True))
        return it.pending

    def propose_after(
        self,
        request: str,
        tokens: list[int],
        survival: float,
        max_tokens: int,
        *,
        min_survival: float | None,
    ) -> Drafted:
        it = self._requests[request].foreseen(tokens)
        return it.draft(max_tokens, min_survival, Drafted(tokens, Float(survival)))

    def observe(self, request: str, accepted: int) -> None:
        it = self._requests[request]
        drafted = len(it.pending.tokens)
        if drafted == 0:
            return
        for i, (taken, _) in enumerate(it.pending.choices[: min(accepted + 1, drafted)]):
            it.tenant.regression.learn(taken, i < accepted)
        it.fortune.learn(accepted, drafted)
        it.tenant.learn_length(accepted)
        it.pending = Drafted()

    def finish(self, request: str, *, keep: bool) -> None:
        it = self._requests.pop(request)
        answer = it.own.text[it.answer :]
        if keep and answer:
            it.tenant.store.append([*answer, GAP])

    @staticmethod
    def _score(it: Request, tokens: Sequence[int]) -> None:
        """The draft's outcome is read from what was generated."""
        drafted = len(it.pending.tokens)
        accepted = 0
        for (taken, rival), token in zip(it.pending.choices, tokens, strict=False):
            it.tenant.regression.learn(taken, taken.token == token)
            if rival is not None:
                it.tenant.regression.learn(rival, rival.token == token)
            if taken.token != token:
                break
            accepted = min(accepted + 1, drafted)
        if drafted > 0:
            it.fortune.learn(accepted, drafted)
        it.tenant.learn_length(accepted)
        it.pending = Drafted()
