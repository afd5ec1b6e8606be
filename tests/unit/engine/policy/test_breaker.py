from engine.policy import Breaker


def pause_of(breaker: Breaker) -> int:
    """Fail until it opens, and count the steps that it then keeps away."""
    while not breaker.failed():
        pass
    steps = 0
    while not breaker.allows():
        steps += 1
    return steps


def test_single_failures_do_not_open_it() -> None:
    breaker = Breaker()

    for _ in range(10):
        assert breaker.allows()
        breaker.failed()
        assert not breaker.is_open
        breaker.succeeded()


def test_it_opens_after_failures_in_a_row_and_lets_one_step_try_again() -> None:
    breaker = Breaker()
    opened = [breaker.failed() for _ in range(3)]

    assert opened == [False, False, True]
    assert breaker.is_open
    assert not breaker.allows()


def test_each_pause_is_longer_up_to_a_bound() -> None:
    breaker = Breaker()

    pauses = [pause_of(breaker) for _ in range(9)]

    assert pauses[:3] == [63, 127, 255]
    assert pauses[-1] == pauses[-2] == 4095


def test_a_success_makes_the_next_pause_short_again() -> None:
    breaker = Breaker()
    for _ in range(5):
        pause_of(breaker)

    breaker.succeeded()

    assert pause_of(breaker) == 63
