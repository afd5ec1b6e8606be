import pytest

from engine.policy import ForwardDrafter, Guesser, worth


def plain(positions: int) -> Guesser:
    return ForwardDrafter(positions, calibrated=False).guesser()


def test_a_proposal_is_scored_by_what_came() -> None:
    guesser = plain(3)
    before = guesser.expected()

    guesser.propose([1, 2, 3])
    guesser.learn([1, 9])

    first, second, third = guesser.expected()
    assert first > before[0]
    assert second / first < before[1] / before[0]
    assert third / second == pytest.approx(before[2] / before[1])


def test_it_is_scored_once() -> None:
    guesser = plain(1)
    guesser.propose([1])
    guesser.learn([1])
    once = guesser.expected()

    guesser.learn([1])

    assert guesser.expected() == once


def test_tokens_beyond_what_came_teach_nothing() -> None:
    guesser = plain(2)
    guesser.propose([1, 2])
    guesser.learn([1])

    first, second = guesser.expected()

    assert second / first == pytest.approx(0.5)


def test_a_new_request_begins_with_what_others_showed() -> None:
    drafter = ForwardDrafter(1, calibrated=False)
    for _ in range(100):
        other = drafter.guesser()
        other.propose([1])
        other.learn([1])

    assert drafter.guesser().expected()[0] > 0.9


@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize(("shown", "asked"), [(0.0, 0.1), (0.0, 1.0), (0.5, 0.51), (1.0, 0.5)])
def test_what_requests_showed_says_nothing_of_warmer_or_cooler_ones(
    shown: float, asked: float, calibrated: bool
) -> None:
    drafter = ForwardDrafter(1, calibrated=calibrated)
    untold = drafter.guesser(asked).propose([1], [0.9])
    for _ in range(100):
        other = drafter.guesser(shown)
        other.propose([1], [0.9])
        other.learn([2])

    assert drafter.guesser(asked).propose([1], [0.9]) == untold
    assert drafter.guesser(shown).propose([1], [0.9])[0] < untold[0] - 0.2


@pytest.mark.parametrize(("shown", "asked"), [(0.1, 0.5), (0.6, 2.0)])
def test_requests_that_are_about_as_warm_share_what_they_showed(shown: float, asked: float) -> None:
    drafter = ForwardDrafter(1, calibrated=False)
    for _ in range(100):
        other = drafter.guesser(shown)
        other.propose([1])
        other.learn([1])

    assert drafter.guesser(asked).expected()[0] > 0.9


def test_confidence_counts_where_it_is_calibrated() -> None:
    calibrated, unsaid = ForwardDrafter(1, calibrated=True).guesser(), plain(1)

    assert calibrated.propose([1], [0.99])[0] > calibrated.propose([1], [0.2])[0]
    assert unsaid.propose([1], [0.99]) == unsaid.expected()


def test_calibration_learns_from_what_came() -> None:
    drafter = ForwardDrafter(1, calibrated=True)
    guesser = drafter.guesser()
    (before,) = guesser.propose([1], [0.9])
    for _ in range(100):
        guesser.propose([1], [0.9])
        guesser.learn([2])

    assert guesser.propose([1], [0.9])[0] < before - 0.2


def test_without_confidence_it_is_expected_to_bring_the_worth_of_its_mean_draft() -> None:
    guesser = plain(3)
    for _ in range(30):
        guesser.propose([1, 2, 3])
        guesser.learn([1, 2, 9])
    expected = guesser.expected()

    assert guesser.expected_gain(3, 0.1) == pytest.approx(worth(expected, 0.1))
    assert guesser.expected_gain(2, 0.1) == pytest.approx(worth(expected[:2], 0.1))
    assert guesser.expected_gain(9, 0.6) == pytest.approx(worth(expected, 0.6))
    assert guesser.expected_gain(0, 0.1) == guesser.expected_gain(3, 1.0) == 0.0


def test_who_is_sure_of_some_drafts_brings_more_than_the_mean_of_all() -> None:
    """At a price that its mean draft does not reach, every second one is bought."""
    drafter = ForwardDrafter(1, calibrated=True)
    guesser = drafter.guesser()
    for _ in range(200):
        for sure in (0.95, 0.05):
            guesser.propose([1], [sure])
            guesser.learn([1 if sure > 0.5 else 2])
    (sure,), (unsure,) = guesser.propose([1], [0.95]), guesser.propose([1], [0.05])
    price = (1.2 * sure + 0.8 * unsure) / 2

    assert guesser.expected()[0] < price
    assert guesser.expected_gain(1, price) == pytest.approx((sure - price) / 2, rel=0.3)
    assert drafter.guesser().expected_gain(1, price) == pytest.approx((sure - price) / 2, rel=0.4)


def test_the_latest_proposals_count_most() -> None:
    guesser = ForwardDrafter(1, calibrated=True).guesser()
    gains = []
    for confidence in (0.01, 0.99):
        for _ in range(16):
            guesser.propose([1], [confidence])
            gains.append(guesser.expected_gain(1, 0.5))

    assert gains[15] == pytest.approx(0.0, abs=0.01)
    assert gains[16] < gains[17] < gains[19] < gains[-1]
    assert gains[19] > 0.5 * gains[-1]


@pytest.mark.parametrize("confidence", [None, [0.9, 0.9]], ids=["unsaid", "said"])
def test_no_more_survives_than_is_proposed(confidence: list[float] | None) -> None:
    guesser = ForwardDrafter(3, calibrated=True).guesser()

    assert len(guesser.propose([1, 2], confidence)) == 2
    assert guesser.propose([], confidence) == []


def test_a_proposal_without_confidence_forgets_that_of_the_one_before() -> None:
    told, untold = (ForwardDrafter(1, calibrated=True) for _ in range(2))
    for drafter in (told, untold):
        guesser = drafter.guesser()
        guesser.propose([1], [0.9])
        if drafter is untold:
            guesser.propose([1])
        guesser.learn([2])

    # Both saw one miss of the first position; only one has anything to calibrate by.
    assert told.guesser().propose([1], [0.9])[0] < untold.guesser().propose([1], [0.9])[0]


@pytest.mark.parametrize("wrong", [None, [None], ["1"], [1.5]], ids=str)
def test_what_is_no_list_of_tokens_is_an_error(wrong: list[int]) -> None:
    guesser = plain(1)

    with pytest.raises(TypeError):
        guesser.propose(wrong)
    with pytest.raises(TypeError):
        guesser.learn(wrong)
