import math

import pytest

from engine.policy import ForwardDrafter, Proposals


def test_it_runs_while_it_pays() -> None:
    drafter = ForwardDrafter(3, calibrated=False)

    assert all(drafter.runs(pays=True) for _ in range(200))


def test_while_it_does_not_pay_tries_become_rarer_but_never_stop() -> None:
    drafter = ForwardDrafter(3, calibrated=False, probe_steps=16)

    ran = [step for step in range(1, 1000) if drafter.runs(pays=False)]
    drafter.runs(pays=True)
    again = [step for step in range(1, 20) if drafter.runs(pays=False)]

    gaps = [later - step for step, later in zip([0, *ran], ran, strict=False)]
    assert gaps == [*[1] * 8, *[16] * 4, *[32] * 4, *[48] * 16]
    assert again == [16]


def test_a_try_covers_a_few_sequences_and_all_in_turn() -> None:
    drafter = ForwardDrafter(3, calibrated=False)
    tried: list[list[int]] = []
    while len(tried) < 3:
        if drafter.runs(pays=False):
            tried.append(drafter.trial(20))

    assert drafter.trial(0) == []
    assert drafter.trial(3) == [0, 1, 2]
    assert [len(sequences) for sequences in tried] == [7, 6, 7]
    assert all(sequences == sorted(sequences) for sequences in tried)
    assert {at for sequences in tried for at in sequences} == set(range(20))


def test_a_step_that_pays_restarts_the_count() -> None:
    drafter = ForwardDrafter(3, calibrated=False, probe_steps=64)
    for _ in range(8 + 63):
        drafter.runs(pays=False)
    drafter.runs(pays=True)

    assert not any(drafter.runs(pays=False) for _ in range(63))
    assert drafter.runs(pays=False)


def plain(positions: int) -> Proposals:
    return ForwardDrafter(positions, calibrated=False).proposals()


def survival(value: Proposals, *confidence: float, tokens: int | None = None) -> list[float]:
    """The survival of a proposal that is then forgotten without an outcome."""
    return value.propose([1] * (tokens or len(confidence)), confidence or None)


def test_a_proposal_is_scored_by_the_tokens_that_came() -> None:
    value = plain(3)
    before = survival(value, tokens=3)

    value.propose([1, 2, 3])
    value.learn([1, 9])

    first, second, third = survival(value, tokens=3)
    assert first > before[0]
    assert second / first < before[1] / before[0]
    # Nothing is known about what follows a rejected token.
    assert third / second == pytest.approx(before[2] / before[1])


def test_a_proposal_is_scored_once_and_no_further_than_tokens_came() -> None:
    value = plain(2)
    value.propose([1, 2])
    value.learn([1])
    value.learn([1, 2])

    first, second = survival(value, tokens=2)

    assert first == pytest.approx((1 + 4 * (1 + 2) / 5) / 5)  # its own outcome, and the shared one
    assert second / first == pytest.approx(0.5)


def test_a_new_request_starts_from_what_others_showed_and_soon_differs() -> None:
    drafter = ForwardDrafter(1, calibrated=False)
    for _ in range(200):
        other = drafter.proposals()
        other.propose([1])
        other.learn([1])

    mine = drafter.proposals()
    (before,) = survival(mine, tokens=1)
    for _ in range(12):
        mine.propose([1])
        mine.learn([2])

    assert before > 0.9
    assert survival(mine, tokens=1)[0] < 0.35


def test_the_acceptance_rate_follows_recent_outcomes() -> None:
    value = plain(1)
    for token in [1] * 300 + [2] * 100:
        value.propose([1])
        value.learn([token])

    assert survival(value, tokens=1)[0] < 0.3


@pytest.mark.parametrize(
    ("taught", "asked", "shares"),
    [
        (0.0, 0.1, False),
        (0.0, 1.0, False),
        (0.5, 0.51, False),
        (1.0, 0.5, False),
        (0.1, 0.5, True),
        (0.6, 2.0, True),
    ],
)
@pytest.mark.parametrize("calibrated", [False, True])
def test_requests_of_similar_temperature_share_what_they_learn(
    taught: float, asked: float, shares: bool, calibrated: bool
) -> None:
    drafter = ForwardDrafter(1, calibrated=calibrated)
    (before,) = survival(drafter.proposals(asked), 0.9)
    for _ in range(100):
        other = drafter.proposals(taught)
        other.propose([1], [0.9])
        other.learn([2])

    (after,) = survival(drafter.proposals(asked), 0.9)

    assert (after < before - 0.2) if shares else (after == before)


def test_an_overconfident_drafter_is_corrected() -> None:
    drafter = ForwardDrafter(1, calibrated=True)
    value = drafter.proposals()
    for step in range(900):
        value.propose([1], [0.9])
        value.learn([1 if step % 3 == 0 else 2])

    assert survival(value, 0.9)[0] == pytest.approx(1 / 3, abs=0.1)


def test_more_confidence_means_more_survival_and_later_tokens_survive_less() -> None:
    value = ForwardDrafter(3, calibrated=True).proposals()

    chances = [survival(value, each)[0] for each in (0.0, 0.1, 0.5, 0.9, 1.0)]
    draft = survival(value, 0.9, 0.5, 0.99)

    assert chances == sorted(chances)
    assert chances[2] == pytest.approx(0.5)
    assert 1.0 > draft[0] > draft[1] > draft[2] > 0.0


def test_without_calibration_confidence_does_not_count() -> None:
    value = plain(1)

    assert survival(value, 0.99) == survival(value, tokens=1)


def test_nan_counts_as_probability_zero() -> None:
    value = ForwardDrafter(1, calibrated=True).proposals()

    assert survival(value, math.nan) == survival(value, 0.0)


def test_without_confidence_the_expected_gain_is_that_of_the_mean_acceptance() -> None:
    value = plain(3)
    for _ in range(30):
        value.propose([1, 2, 3])
        value.learn([1, 2, 9])
    first, second, third = survival(value, tokens=3)

    assert value.expected_gain(3, 0.1) == pytest.approx(first + second - 0.2 + max(0, third - 0.1))
    assert value.expected_gain(1, 0.1) == pytest.approx(first - 0.1)
    assert value.expected_gain(0, 0.1) == value.expected_gain(3, 1.0) == 0.0


def test_a_drafter_certain_of_every_second_proposal_gains_at_a_price_above_its_mean() -> None:
    drafter = ForwardDrafter(1, calibrated=True)
    value = drafter.proposals()
    for _ in range(200):
        for confidence in (0.95, 0.05):
            value.propose([1], [confidence])
            value.learn([1 if confidence > 0.5 else 2])
    (high,), (low,) = value.propose([1], [0.95]), value.propose([1], [0.05])
    price = (1.2 * high + 0.8 * low) / 2

    for each in (value, drafter.proposals()):
        assert each.expected_gain(1, price) == pytest.approx((high - price) / 2, rel=0.4)


def test_a_draft_that_would_be_replaced_is_taken_off_each_proposal() -> None:
    """Beside a draft that is worth the mean, a drafter that is sure of half still gains."""
    proposals = ForwardDrafter(1, calibrated=True).proposals()
    for _ in range(200):
        for confidence in (0.95, 0.05):
            proposals.propose([1], [confidence])
            proposals.learn([1 if confidence > 0.5 else 2])
    alone = proposals.expected_gain(1, 0.0)

    assert 0.5 * alone < proposals.expected_gain(1, 0.0, 0.4 * alone) < alone
    assert proposals.expected_gain(1, 0.0, alone) > 0.2 * alone
    assert proposals.expected_gain(1, 0.0, 1.0) == pytest.approx(0.0, abs=0.01)


def test_a_calibration_yields_to_new_outcomes_after_a_long_history() -> None:
    drafter = ForwardDrafter(1, calibrated=True)
    proposals = drafter.proposals()
    for count, token in ((100_000, 1), (400, 2)):
        for _ in range(count):
            proposals.propose([1], [0.9])
            proposals.learn([token])

    assert survival(proposals, 0.9)[0] < 0.2


def test_the_latest_proposals_count_most() -> None:
    value = ForwardDrafter(1, calibrated=True).proposals()
    gains = []
    for confidence in (0.01, 0.99):
        for _ in range(16):
            value.propose([1], [confidence])
            gains.append(value.expected_gain(1, 0.5))

    assert gains[15] == pytest.approx(0.0, abs=0.01)
    assert gains[16] < gains[17] < gains[19] < gains[-1]
    assert gains[19] > 0.5 * gains[-1]


@pytest.mark.parametrize("confidence", [None, [0.9, 0.9]], ids=["unstated", "stated"])
def test_survival_is_no_longer_than_the_proposal(confidence: list[float] | None) -> None:
    value = ForwardDrafter(3, calibrated=True).proposals()

    assert len(value.propose([1, 2], confidence)) == 2
    assert value.propose([], confidence) == []


@pytest.mark.parametrize("wrong", [None, [None], ["1"], [1.5]], ids=str)
def test_anything_but_a_list_of_tokens_is_an_error(wrong: list[int]) -> None:
    value = plain(1)

    with pytest.raises(TypeError):
        value.propose(wrong)
    with pytest.raises(TypeError):
        value.learn(wrong)
