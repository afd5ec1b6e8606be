import time

import pytest

from engine.training.adapt.__main__ import Rest


def test_it_sleeps_for_as_long_as_it_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = 10.0
    slept: list[float] = []
    monkeypatch.setattr(time, "process_time", lambda: computed)
    monkeypatch.setattr(time, "sleep", slept.append)
    rest = Rest()

    computed = 10.5
    rest()
    computed = 12.5
    rest()

    assert slept == [0.5, 2.0]
