from random import Random

import numpy as np

from bench.suffix.datasets import Request
from bench.suffix.fit_prior import blank, fit, render
from engine._core import suffix


def copies(count: int) -> list[Request]:
    """Requests whose answer repeats the prompt."""
    random = Random(1)
    texts = [[random.randrange(1000) for _ in range(100)] for _ in range(count)]
    return [
        Request(np.array(text, np.int32), np.array(text, np.int32), is_last=True) for text in texts
    ]


def test_the_shipped_header_is_what_would_be_written_for_its_values() -> None:
    fields = suffix.prior()

    assert f".outcomes = {fields['outcomes']}f" in render(fields)
    assert sorted(fields) == sorted(blank())


def test_copies_teach_that_long_matches_are_right() -> None:
    learnt = fit(copies(20))

    latest_own = 5
    before, after = (np.array(prior["reliability"])[latest_own] for prior in (blank(), learnt))
    assert (after[8:60] > before[8:60]).all()
    assert learnt["outcomes"] == blank()["outcomes"]


def test_the_order_of_fits_does_not_matter() -> None:
    first = fit(copies(5))
    fit(copies(20))

    assert fit(copies(5)) == first
