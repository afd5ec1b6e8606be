"""Drafts against a naive search, and their survival against what really came."""

import math
from itertools import pairwise
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.suffix import LONGEST_DRAFT, SuffixIndex
from tests.unit.engine.suffix.conversations import MIB, answer

MOST = 12


def continuations(own: list[int], others: list[list[int]], known: int) -> list[list[int]]:
    """What follows each earlier occurrence of the last token, naively.

    The request's own text goes on with what is drafted, so a loop in it never ends. Occurrences in
    it count up to its first `known` tokens.
    """
    found = [other[at:][:MOST] for other in others for at in ends(other, own[-1])]
    for at in ends(own[:known], own[-1]):
        rest = own[at:]
        found.append((rest * MOST)[:MOST])
    return found


def ends(text: list[int], token: int) -> list[int]:
    """Where this token was followed by another one."""
    return [at for at in range(1, len(text)) if text[at - 1] == token]


def common_prefix(texts: list[list[int]]) -> list[int]:
    prefix = []
    for tokens in zip(*texts, strict=False):
        if len(set(tokens)) > 1:
            break
        prefix.append(tokens[0])
    return prefix


# Few tokens, a repeated piece, or many tokens: so that contexts are ambiguous, loop, or are unique.
few = st.lists(st.integers(0, 4), min_size=1, max_size=40)
loop = st.builds(lambda piece, times: piece * times, few, st.integers(2, 4))
many = st.lists(st.integers(0, 400), min_size=1, max_size=120)
texts = st.one_of(few, loop, many)


@given(
    prompt=texts,
    written=texts,
    answers=st.lists(texts, max_size=3),
    copies=st.integers(0, 60),
    salt=st.integers(0, (1 << 64) - 1),
)
@settings(max_examples=300, deadline=None)
@example(prompt=[9], written=[1, 2, 3] * 4, answers=[], copies=0, salt=1)
@example(prompt=[0], written=[0], answers=[[0, 0]], copies=0, salt=1)
@example(prompt=list(range(10, 60)), written=[7], answers=[list(range(5, 30))], copies=20, salt=1)
def test_a_draft_is_what_a_naive_search_finds(
    prompt: list[int], written: list[int], answers: list[list[int]], copies: int, salt: int
) -> None:
    """Each token follows an occurrence of the last one; where all agree, that is drafted."""
    index = SuffixIndex(64 * MIB, salt=salt)
    for text in answers:
        answer(index, "acme", text)
    index.start("one", "acme", prompt)
    own = [*prompt, *written, *prompt[:copies]]
    index.extend("one", own[len(prompt) :])

    draft = index.propose("one", MOST)

    pairs = {pair for text in (own, *answers) for pair in pairwise(text)}
    text = own
    for token in draft.tokens:
        follows = (text[-1], token) in pairs or (len(text) > len(own) and token in own)
        assert follows, f"{token} never followed {text[-1]}"
        text = [*text, token]
    every = continuations(own, answers, len(own))
    assert bool(draft.tokens) == any(every)
    agreed = common_prefix(every)
    assert draft.tokens[: len(agreed)] == agreed


@given(text=few, proposed=few, rest=many)
@settings(max_examples=150, deadline=None)
def test_a_draft_after_proposed_tokens_is_what_a_naive_search_finds(
    text: list[int], proposed: list[int], rest: list[int]
) -> None:
    own = [*text, 500, *rest, *proposed]
    before = len(own) - len(proposed)
    index = SuffixIndex(64 * MIB, salt=1)
    index.start("one", "acme", own[:before])

    after = index.propose_after("one", proposed, 1.0, MOST).tokens

    agreed = common_prefix(continuations(own, [], before))
    assert after[: len(agreed)] == agreed


@pytest.mark.parametrize("edits", [0.02, 0.1, 0.3])
def test_survival_is_how_often_tokens_are_accepted(edits: float) -> None:
    """Copies with edits: of tokens stated to survive with p, a share of p is accepted."""
    random = Random(3)
    index = SuffixIndex(16 * MIB, salt=1)
    stated: list[float] = []
    came: list[bool] = []
    for number in range(40):
        source = [random.randrange(3000) for _ in range(300)]
        index.start("one", "acme", source)
        text = [random.randrange(3000) if random.random() < edits else each for each in source]
        at = 4
        index.extend("one", text[:at])
        while at < len(text) - 1:
            draft = index.propose("one", 8)
            right = True
            accepted = 0
            for token, survival, real in zip(draft.tokens, draft.survival, text[at:], strict=False):
                right = right and token == real
                accepted += right
                if number >= 10:
                    stated.append(survival)
                    came.append(right)
            index.extend("one", text[at : at + accepted + 1])
            at += accepted + 1
        index.finish("one", keep=False)

    assert len(stated) > 2000
    assert sum(stated) / sum(came) == pytest.approx(1.0, abs=0.08)
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        those = [at for at, chance in enumerate(stated) if low <= chance < low + 0.2]
        if len(those) > 300:
            share = sum(came[at] for at in those) / len(those)
            assert share == pytest.approx(sum(stated[at] for at in those) / len(those), abs=0.12)


def test_a_draft_that_hardly_survives_does_not_spoil_the_model() -> None:
    """After a hundred unlikely tokens survival is 0 in float32; its logarithm must not be used."""
    rng = Random(0)
    index = SuffixIndex(4 * MIB, salt=1)
    index.start("one", "acme", [1] * 10)
    early = 0

    for step in range(150):
        draft = index.propose("one", LONGEST_DRAFT)
        assert not any(math.isnan(survival) for survival in draft.survival)
        if 0.0 in draft.survival[:63]:
            early += 1
            index.extend("one", draft.tokens[:64])
        elif step % 2:
            index.extend("one", [*draft.tokens[: step % 3], 1000 + step])
        else:
            index.extend("one", [rng.randrange(3) for _ in range(rng.randrange(1, 20))])

    assert early > 0
