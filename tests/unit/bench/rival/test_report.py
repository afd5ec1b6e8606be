import pytest

from bench.rival.contest import Figures
from bench.rival.report import report


def test_the_best_of_the_others_counts_on_each_prompt() -> None:
    speeds = {
        "specgate": [30.0, 20.0, 90.0],
        "llama-server": [20.0, 40.0, 30.0],
        "llama-server ngram-mod": [10.0, 10.0, 60.0],
    }

    found = report(Figures({"chat": speeds}, {"specgate": 3_000_000}, {"specgate": 30.0}))

    chat = found["kinds"]["chat"]
    assert chat["ratio_to_best"] == pytest.approx(1.5)
    assert chat["ratio_to_best_spread"] == pytest.approx([0.5, 1.5])
    assert chat["faster_on"] == [2, 3]
    assert chat["ratio_to"] == pytest.approx({"llama-server": 1.5, "llama-server ngram-mod": 2.0})
    assert chat["tokens_per_second"]["specgate"] == 30.0
    assert found["memory_mb"] == {"specgate": 3.0}


def test_without_a_prompt_there_is_no_kind() -> None:
    assert report(Figures())["kinds"] == {}
