import math

import numpy as np
import pytest

from bench.suffix.calibration import Tally, measure_calibration
from bench.suffix.datasets import DataSet, Request
from bench.suffix.ours import Ours
from bench.suffix.plan import OUR_LONG


def test_believable_survivals_have_no_excess() -> None:
    tally = Tally()
    for number in range(10):
        tally.add(0.5, is_accepted=number % 2 == 0)

    found = tally.as_json()

    assert found["tokens"] == 10
    assert found["log_loss"] == pytest.approx(math.log(2))
    assert (found["stated"], found["accepted"]) == (0.5, 0.5)
    assert found["excess"] == pytest.approx(0.0)


def test_the_excess_is_what_better_survivals_would_save() -> None:
    tally = Tally()
    for _ in range(10):
        tally.add(0.5, is_accepted=True)

    assert tally.as_json()["excess"] == pytest.approx(math.log(2))


def test_a_draft_past_the_end_of_an_answer_is_not_counted_there() -> None:
    text = np.arange(100, 160, dtype=np.int32)
    prompt = np.concatenate([text, text[:1]])
    answer = text[1:21]
    kinds = np.array([0] * 10 + [1] * 10, np.uint8)
    request = Request(prompt, answer, is_last=True, kinds=kinds)

    found = measure_calibration(
        Ours, {"one": DataSet("one", True, [request], 0)}, {"setting": OUR_LONG.as_json()}
    )

    tokens = {kind: facts["tokens"] for kind, facts in found.items() if isinstance(facts, dict)}
    assert tokens == {"prose": 9, "code": 10, "tool_call": 0, "json": 0, "end": 8}
