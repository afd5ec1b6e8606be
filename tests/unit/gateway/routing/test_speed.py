import pytest

from gateway.routing.speed import CROWDING, Speeds


def test_the_speed_of_a_worker_is_learnt_from_little_answers_and_large_ones() -> None:
    for steps in (8, 800):
        speeds = Speeds()
        speed = speeds.new()
        for _ in range(1000):
            speeds.saw_answer("t", tokens=steps, steps=steps)
            speeds.saw_steps(speed, steps * 0.05, steps=steps, crowd=0)
        assert speed.step.value == pytest.approx(0.05, rel=0.05)


def test_fixed_times_count_little_in_the_time_to_read() -> None:
    speeds = Speeds()
    speed = speeds.new()
    for _ in range(1000):
        for tokens in (100, 4000):
            speeds.saw_read(speed, 0.04 + tokens * 1e-3, ahead_tokens=tokens)

    assert speed.read.value == pytest.approx(1e-3, rel=0.02)


def test_steps_among_others_count_as_if_they_had_been_alone() -> None:
    speeds = Speeds()
    speed = speeds.new()
    for _ in range(2000):
        speeds.saw_steps(speed, 100 * 0.02 * (1 + 32 * CROWDING), steps=100, crowd=32)

    assert speed.step.value == pytest.approx(0.02, rel=0.01)


def test_a_new_worker_is_taken_to_be_like_the_others() -> None:
    speeds = Speeds()
    speed = speeds.new()
    for _ in range(3000):
        speeds.saw_steps(speed, 10.0, steps=100, crowd=0)

    assert speeds.new().step.value == pytest.approx(0.1, rel=0.1)


def test_answers_are_expected_by_tenant_and_within_the_limit() -> None:
    speeds = Speeds()
    for _ in range(100):
        speeds.saw_answer("long", tokens=1000, steps=1000)
        speeds.saw_answer("short", tokens=10, steps=10)

    assert speeds.expected_steps("long", None) == pytest.approx(1000)
    assert speeds.expected_steps("short", None) == pytest.approx(10)
    assert speeds.expected_steps("long", 50) == pytest.approx(50)
    assert 10 < speeds.expected_steps("new", None) < 1000


def test_accepted_drafts_make_fewer_steps() -> None:
    speeds = Speeds()
    for _ in range(100):
        speeds.saw_answer("drafts", tokens=300, steps=100)

    assert speeds.expected_steps("drafts", None) == pytest.approx(100)
