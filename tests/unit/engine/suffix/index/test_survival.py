"""Survival: its order, where a draft ends by it, and what its outcomes teach."""

import pytest

from engine.errors import SuffixInputError
from engine.suffix import LONGEST_DRAFT, SuffixIndex
from tests.unit.engine.suffix.index.indexes import MIB, PHRASE, build


def test_survival_never_rises_and_lies_between_zero_and_one() -> None:
    survival = build().propose("now", 64, min_survival=0.0).survival

    assert survival == sorted(survival, reverse=True)
    assert 0.0 <= survival[-1] <= survival[0] <= 1.0


def test_a_draft_ends_before_the_first_token_that_is_too_unsure() -> None:
    every = build().propose("now", 16, min_survival=0.0)
    middle = every.survival[7]

    some = build().propose("now", 16, min_survival=middle)

    assert some.survival == [one for one in every.survival if one >= middle]


def test_a_draft_without_a_bound_ends_where_a_token_of_this_tenant_stops_to_pay() -> None:
    index = build()
    mean = 2.0 + 0.002 * (4 + 1 - 2.0)  # after one step that took all four tokens
    prices = [0.0715 * mean**0.75 * (place + 1) ** 0.5 for place in range(64)]
    index.observe("now", 4)
    index.extend("now", PHRASE[3:5])

    every = index.propose("now", 64, min_survival=0.0).survival
    paying = index.propose("now", 64).survival

    assert paying == [one for one, price in zip(every, prices, strict=False) if one >= price]
    assert 0 < len(paying) < len(every)


def test_a_graft_without_a_bound_pays_for_the_tokens_before_it_too() -> None:
    index = build()
    before = PHRASE[3:7]
    prices = [0.0715 * 2.0**0.75 * (place + 1) ** 0.5 for place in range(4, 64)]

    every = index.propose_after("now", before, 1.0, 60, min_survival=0.0).survival
    paying = index.propose_after("now", before, 1.0, 60).survival

    assert paying == [one for one, price in zip(every, prices, strict=False) if one >= price]
    assert 0 < len(paying) < len(every)


def test_what_is_almost_sure_is_drafted_however_long_the_draft() -> None:
    index = SuffixIndex(4 * MIB, salt=1)
    index.start("loop", "acme", [7] * 100)
    for _ in range(40):
        index.extend("loop", [*index.propose("loop", 64).tokens, 7])

    draft = index.propose("loop", LONGEST_DRAFT)

    assert 0.0715 * 2.0**0.75 * LONGEST_DRAFT**0.5 > 1.0  # with no highest price it would end
    assert len(draft) == LONGEST_DRAFT


@pytest.mark.parametrize(("cooler", "warmer"), [(0.0, 0.3), (0.3, 1.0)])
def test_the_warmer_a_request_the_less_its_draft_survives(cooler: float, warmer: float) -> None:
    drafts = [
        build(temperature=each).propose("now", 1, min_survival=0.0) for each in (cooler, warmer)
    ]

    assert drafts[0].tokens == drafts[1].tokens
    assert drafts[0].survival[0] > drafts[1].survival[0] > 0.0


def test_what_sampled_requests_refuse_is_held_against_greedy_ones_less() -> None:
    def survival(of: float, refused_at: float) -> float:
        index = SuffixIndex(4 * MIB, salt=1)
        for number in range(40):
            index.start(f"{number}", "acme", PHRASE, temperature=refused_at)
            for token in PHRASE[:4]:
                index.extend(f"{number}", [token])
                index.propose(f"{number}", 1, min_survival=0.0)
                index.extend(f"{number}", [99])
            index.finish(f"{number}", keep=False)
        index.start("now", "acme", PHRASE, temperature=of)
        index.extend("now", PHRASE[:1])
        return index.propose("now", 1, min_survival=0.0).survival[0]

    assert survival(of=1.0, refused_at=1.0) < survival(of=0.0, refused_at=1.0)
    assert survival(of=0.0, refused_at=0.0) < survival(of=0.0, refused_at=1.0)


def test_what_is_hotter_than_two_counts_as_two() -> None:
    drafts = [build(temperature=each).propose("now", 8, min_survival=0.0) for each in (2.0, 1e30)]

    assert drafts[0].survival == drafts[1].survival


def test_an_outcome_is_counted_once() -> None:
    index = build()

    index.observe("now", 4)

    with pytest.raises(SuffixInputError):
        index.observe("now", 1)
    index.observe("now", 0)


def test_observing_an_outcome_teaches_what_extend_would_find_out() -> None:
    index, twin = build(), build()
    index.observe("now", 4)
    index.extend("now", [*PHRASE[3:7], 1])
    twin.extend("now", [*PHRASE[3:7], 1])

    assert index.propose("now", 4).tokens == twin.propose("now", 4).tokens
