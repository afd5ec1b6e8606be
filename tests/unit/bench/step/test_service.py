import pytest

from bench.step.service import ServiceError, seconds_a_step


def test_only_the_time_in_which_all_streams_get_tokens_counts() -> None:
    first = [0.0, 0.1, 1.0, 1.2, 1.4, 1.6]
    second = [1.0, 1.2, 1.4, 1.6, 9.0]

    assert seconds_a_step([first, second]) == pytest.approx(0.2)
    assert seconds_a_step([second]) == pytest.approx(2.0)


@pytest.mark.parametrize("times", [[[0.0]], [[0.0, 1.0], [2.0, 3.0]]], ids=["one", "apart"])
def test_answers_that_do_not_overlap_measure_nothing(times: list[list[float]]) -> None:
    with pytest.raises(ServiceError):
        seconds_a_step(times)
