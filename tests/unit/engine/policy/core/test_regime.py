from engine.policy import Regime


def changes(regime: Regime, drafted: list[bool]) -> list[int]:
    return [step for step, drew in enumerate(drafted) if regime.learn(drafted=drew)]


def test_it_is_open_until_hardly_a_step_drafts() -> None:
    regime = Regime()

    assert regime.is_open
    assert not changes(regime, [True, False, False, False] * 100)
    assert len(changes(regime, [False] * 300)) == 1
    assert not regime.is_open


def test_it_opens_again_when_a_good_share_drafts() -> None:
    regime = Regime()
    changes(regime, [False] * 400)

    assert not changes(regime, [True] + [False] * 20)
    assert len(changes(regime, [True] * 60)) == 1
    assert regime.is_open


def test_flapping_is_not_a_change() -> None:
    regime = Regime()

    assert len(changes(regime, ([True] * 5 + [False] * 30) * 50)) <= 1
