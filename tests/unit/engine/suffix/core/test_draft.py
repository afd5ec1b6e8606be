"""The core drafts what its slow twin drafts, call by call."""

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.suffix import LONGEST_DRAFT, Draft, SuffixIndex
from tests.unit.engine.suffix.twin import Drafted, Twin

REQUESTS = ("one", "two", "three")
TENANTS = ("acme", "umbrella")
MOST_CALLS = 40


class Pair:
    """An index and its twin: each call goes to both, and what they draft is compared."""

    def __init__(self, salt: int, prompt: Sequence[int]) -> None:
        self.index = SuffixIndex(64 << 20, salt=salt)
        self.twin = Twin(salt)
        self.drafted: dict[str, list[int]] = {}
        for request in REQUESTS:
            self._start(request, TENANTS[0], prompt)

    def propose(self, request: str, most: int, least: float | None) -> None:
        ours = self.index.propose(request, most, min_survival=least)
        theirs = self.twin.propose(request, most, min_survival=least)

        assert_alike(ours, theirs)
        self.drafted[request] = ours.tokens

    def propose_after(
        self, request: str, tokens: Sequence[int], survival: float, most: int, least: float | None
    ) -> None:
        proposed = list(tokens)
        ours = self.index.propose_after(request, proposed, survival, most, min_survival=least)
        theirs = self.twin.propose_after(request, proposed, survival, most, min_survival=least)

        assert_alike(ours, theirs)

    def propose_after_part(self, request: str, part: float, token: int, most: int) -> None:
        """Draft behind that part of the last draft and another token."""
        self.propose_after(request, [*self._part(request, part), token], 0.7, most, 0.0)

    def extend(self, request: str, tokens: Sequence[int]) -> None:
        self.index.extend(request, list(tokens))
        self.twin.extend(request, tokens)
        self.drafted[request] = []

    def accept(self, request: str, part: float, token: int) -> None:
        """Generate that part of the last draft, and then another token."""
        self.extend(request, [*self._part(request, part), token])

    def predict(self, request: str, tokens: Sequence[int]) -> None:
        self.index.predict(request, list(tokens))
        self.twin.predict(request, tokens)

    def observe(self, request: str, part: float) -> None:
        accepted = len(self._part(request, part))
        self.index.observe(request, accepted)
        self.twin.observe(request, accepted)
        self.drafted[request] = []

    def restart(
        self, request: str, tenant: str, keep: bool, prompt: Sequence[int], temperature: float
    ) -> None:
        self.index.finish(request, keep=keep)
        self.twin.finish(request, keep=keep)
        self._start(request, tenant, prompt, temperature)

    def _start(
        self, request: str, tenant: str, prompt: Sequence[int], temperature: float = 0.0
    ) -> None:
        self.index.start(request, tenant, list(prompt), temperature=temperature)
        self.twin.start(request, tenant, prompt, temperature=temperature)
        self.drafted[request] = []

    def _part(self, request: str, part: float) -> list[int]:
        drafted = self.drafted[request]
        return drafted[: int(part * len(drafted))]


def assert_alike(ours: Draft, theirs: Drafted) -> None:
    assert ours.tokens == theirs.tokens
    assert ours.survival == pytest.approx(theirs.survival, rel=1e-3, abs=1e-6)
    assert ours.share == pytest.approx(theirs.share, rel=1e-3, abs=1e-6)
    assert ours.predicted == theirs.predicted


def texts(longest: int) -> st.SearchStrategy[list[int]]:
    """Few different tokens, or a short piece again and again, so that much matches."""
    token = st.sampled_from([0, 1, 2, 3, 70_000, (1 << 31) - 1])
    mixed = st.lists(token, min_size=1, max_size=longest)
    piece = st.lists(token, min_size=1, max_size=12)
    periodic = st.builds(lambda piece, size: (piece * size)[:size], piece, st.integers(1, longest))
    return mixed | periodic


def calls() -> st.SearchStrategy[list[tuple[Any, ...]]]:
    request = st.sampled_from(REQUESTS)
    part = st.sampled_from([0.0, 0.3, 0.7, 1.0])
    proposal = st.tuples(
        st.just(Pair.propose),
        request,
        st.integers(0, 40),
        st.sampled_from([0.0, 0.2, 0.37, 0.6, None]),
    )
    call = st.one_of(
        proposal,
        st.tuples(st.just(Pair.extend), request, texts(40)),
        st.tuples(st.just(Pair.accept), request, part, st.integers(0, 3)),
        proposal,
        st.tuples(
            st.just(Pair.propose_after),
            request,
            texts(40),
            st.sampled_from([0.0, 0.5, 1.0]),
            st.integers(0, 40),
            st.sampled_from([0.0, 0.2, None]),
        ),
        st.tuples(
            st.just(Pair.propose_after_part),
            request,
            part,
            st.integers(0, 3),
            st.integers(0, 40),
        ),
        st.tuples(st.just(Pair.predict), request, texts(80)),
        st.tuples(st.just(Pair.observe), request, part),
        st.tuples(
            st.just(Pair.restart),
            request,
            st.sampled_from(TENANTS),
            st.booleans(),
            texts(80),
            st.sampled_from([0.0, 0.3, 1.0, 9.0]),
        ),
    )
    return st.lists(call, max_size=MOST_CALLS)


def play(salt: int, prompt: Sequence[int], script: Sequence[tuple[Any, ...]]) -> None:
    pair = Pair(salt, prompt)
    for call, *arguments in script:
        call(pair, *arguments)


# A copy that is edited: the match that it ends is found again behind the edit.
EDITED_COPY = [
    (Pair.extend, "one", [100, *range(10, 30), 500]),
    (Pair.propose, "one", 8, 0.0),
    (Pair.extend, "one", [31]),
    (Pair.propose, "one", 8, 0.0),
    (Pair.accept, "one", 1.0, 7),
    (Pair.propose, "one", 8, 0.0),
]

# The same, where another drafter proposes the edit.
EDITED_BY_ANOTHER = [
    (Pair.extend, "one", [100, *range(10, 30)]),
    (Pair.propose, "one", 2, 0.0),
    (Pair.extend, "one", [30, 31]),
    (Pair.propose_after, "one", [32, 500, 34], 0.5, 8, 0.0),
    (Pair.propose_after, "one", [500, 501, 34], 0.5, 8, 0.0),
    (Pair.propose, "one", 8, 0.0),
]

# Without a bound a draft ends at the price, which rises with the place and with what was accepted.
AT_THE_PRICE = [
    (Pair.extend, "one", [1, 2, 3, 4, 5, 6, 7] * 9),
    (Pair.propose, "one", 200, None),
    (Pair.propose_after, "one", [1, 2, 3], 0.4, 200, None),
    (Pair.accept, "one", 1.0, 9),
    (Pair.propose, "one", 8, None),
    (Pair.observe, "one", 0.3),
    (Pair.extend, "one", [500]),
    (Pair.propose, "one", 200, None),
    (Pair.extend, "one", [10, 11, 12]),
    (Pair.propose, "one", 200, None),
    (Pair.propose_after, "one", list(range(10, 40)), 0.9, 200, None),
]

# The end of an answer that was kept is no place where its last tokens are followed by anything.
END_OF_AN_ANSWER = [
    (Pair.extend, "one", [0, 0]),
    (Pair.restart, "one", TENANTS[0], True, [0], 0.0),
    (Pair.propose, "one", 1, 0.0),
]

# A loop is followed beyond the end of its own text, further than outcomes are learnt from.
LONG_LOOP = [
    (Pair.extend, "one", [1, 2, 3] * 13),
    (Pair.propose, "one", 200, 0.0),
    (Pair.accept, "one", 1.0, 2),
    (Pair.propose, "one", 200, 0.0),
    (Pair.propose_after, "one", [3, *[1, 2, 3] * 20], 0.9, 200, 0.0),
    (Pair.propose_after, "one", [3] * 50, 0.9, 200, 0.0),
    (Pair.observe, "one", 0.7),
    (Pair.propose, "one", 200, 0.0),
]


# An answer that is kept between a draft and what is drafted behind another's token. The place that
# fits best is not among the latest four of the context that ends with that token.
KEPT_BETWEEN = [
    (Pair.extend, "two", [50, 51, 52, 53, 54, 60, 61, *[51, 52, 53, 54, 70, 71, 90] * 4]),
    (Pair.extend, "one", [50, 51, 52, 53]),
    (Pair.propose, "one", 8, 0.0),
    (Pair.restart, "two", TENANTS[0], True, [0], 0.0),
    (Pair.propose_after, "one", [54], 0.5, 8, 0.0),
]


@given(st.integers(0, (1 << 64) - 1), texts(80), calls())
@settings(max_examples=150, deadline=None)
@example(1, list(range(10, 60)), EDITED_COPY)
@example(1, list(range(10, 60)), EDITED_BY_ANOTHER)
@example(1, list(range(10, 60)), AT_THE_PRICE)
@example(1, [0], END_OF_AN_ANSWER)
@example(1, [9], LONG_LOOP)
@example(1, [0], KEPT_BETWEEN)
def test_the_core_drafts_what_the_twin_drafts(
    salt: int, prompt: list[int], script: list[tuple[Any, ...]]
) -> None:
    play(salt, prompt, script)


def conversations(rounds: int) -> list[tuple[Any, ...]]:
    """Draft, accept most of it, and go on; what is accepted depends on the drafts."""
    steps = [
        call
        for step in range(rounds)
        for request in REQUESTS
        for call in (
            (Pair.propose, request, 8, (0.2, None)[step % 2]),
            (Pair.propose_after_part, request, (0.0, 0.5, 1.0)[step % 3], step % 5, 8),
            (Pair.accept, request, (0.0, 0.5, 1.0)[step % 3], step % 5),
        )
    ]
    return steps


def test_they_stay_together_while_the_calibration_learns() -> None:
    play(7, [0, 1, 2, 3, 4] * 6, conversations(100))


def test_a_draft_that_can_hardly_survive_leaves_the_calibration_sound() -> None:
    """Beyond a hundred unlikely tokens survival is zero in float32; its logarithm is not used."""
    rng = Random(0)
    index = SuffixIndex(4 << 20, salt=1)
    index.start("one", "acme", [1] * 10)
    early = 0

    for step in range(150):
        draft = index.propose("one", LONGEST_DRAFT, min_survival=0.0)
        assert not any(math.isnan(survival) for survival in draft.survival)
        if 0.0 in draft.survival[:63]:
            early += 1
            index.extend("one", draft.tokens[:64])
        elif step % 2:
            index.extend("one", [*draft.tokens[: step % 3], 1000 + step])
        else:
            index.extend("one", [rng.randrange(3) for _ in range(rng.randrange(1, 20))])

    assert early > 0


def wandering(rounds: int) -> list[tuple[Any, ...]]:
    """Pieces of one text of many words, edited here and there; all places hold them."""
    rng = Random(3)
    source = [rng.randrange(300) for _ in range(900)]
    steps: list[tuple[Any, ...]] = [(Pair.restart, "one", TENANTS[0], True, source, 0.0)]
    for step in range(rounds):
        at = rng.randrange(800)
        piece = [*source[at : at + 12], step, *source[at + 13 : at + 30]]
        request = REQUESTS[step % 2]
        steps += [
            (Pair.propose, request, 20, 0.0),
            (Pair.propose_after, request, piece[: step % 12 + 1], 0.5, 20, 0.0),
            (Pair.extend, request, piece),
        ]
        if step % 10 == 9:
            steps += [
                (Pair.restart, request, TENANTS[0], True, source, 0.7),
                (Pair.predict, request, source),
                (Pair.propose_after, request, source[:3], 0.5, 20, 0.0),
                (Pair.propose_after, request, [7, *source[1:3]], 0.5, 20, 0.0),
                (Pair.extend, request, [1]),
            ]
    return steps


def test_they_stay_together_where_contexts_share_slots() -> None:
    play(7, [0], wandering(60))
