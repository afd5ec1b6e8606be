from engine.worker.recent import Recent


def test_at_the_start_nothing_rose() -> None:
    assert Recent[str]().rise({"a": 7}, 100.0) == ({"a": 0}, 0.0)


def test_a_rise_is_that_of_the_last_minute() -> None:
    recent = Recent[str]()
    for second in range(101):
        found = recent.rise({"a": 10 * second}, 1000.0 + second)

    assert found == ({"a": 600}, 60.0)


def test_a_counter_that_is_new_began_at_0() -> None:
    recent = Recent[str]()
    recent.rise({"a": 1}, 0.0)

    assert recent.rise({"a": 1, "b": 5}, 2.0) == ({"a": 0, "b": 5}, 2.0)


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    recent = Recent[str]()
    for second in range(1000):
        recent.rise({"a": 1}, float(second))

    assert len(recent._seen) == 61


def test_after_a_gap_the_rise_covers_it() -> None:
    recent = Recent[str]()
    recent.rise({"a": 0}, 0.0)

    assert recent.rise({"a": 90}, 90.0) == ({"a": 90}, 90.0)
