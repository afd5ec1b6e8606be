import warnings
from typing import Any

import pytest

from bench.gpu.judge import NEAR_TIE, Text, compare, read_dispatch

SURE, UNSURE = 2 * NEAR_TIE, NEAR_TIE / 2


@pytest.mark.parametrize(
    ("other", "gaps", "verdict"),
    [
        ([1, 2, 3], [SURE, SURE, SURE], "equal"),
        ([1, 9, 9], [SURE, UNSURE, SURE], "near_ties"),
        ([1, 9, 3], [UNSURE, SURE, UNSURE], "defects"),
        ([1, 2], [SURE, SURE, UNSURE], "near_ties"),
        ([1, 2], [SURE, SURE, SURE], "defects"),
        ([1, 2, 3, 4], [UNSURE, UNSURE, UNSURE], "defects"),
    ],
    ids=["equal", "near tie", "defect", "ends at a near-tie", "ends early", "goes on"],
)
def test_texts_may_part_at_a_near_tie_only(
    other: list[int], gaps: list[float], verdict: str
) -> None:
    found = compare([Text([1, 2, 3], gaps)], [other])

    expected = dict.fromkeys(("equal", "near_ties", "defects"), 0) | {verdict: 1}
    assert found == {"texts": 1, **expected}


def test_gaps_are_read_from_the_two_likeliest() -> None:
    likeliest = [{"a": -0.5, "b": -2.0, "c": -1.5}, {"a": -0.1, "b": -4.1}]
    answer: dict[str, Any] = {
        "choices": [{"token_ids": [7, 8], "logprobs": {"top_logprobs": likeliest}}]
    }

    text = Text.read(answer)

    assert text.tokens == [7, 8]
    assert text.gaps == pytest.approx([1.0, 4.0])


LOG = """
INFO 11-27 | Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |
|-----------------|---------------|--------------|--------------|-------|
| 3               | 4             | 1            | FULL         | 6     |
| 100             | 100           | 0            | NONE         | 2     |
some other line
| 10              | 16            | 6            | PIECEWISE    | 2     |
""".splitlines()


def test_tables_of_graphs_are_added_up() -> None:
    found = read_dispatch(LOG)

    assert found["steps"] == 10
    assert found["share"] == {"full": 0.6, "none": 0.2, "piecewise": 0.2}
    assert found["padded_over_real"] == pytest.approx((6 * 4 + 2 * 16) / (6 * 3 + 2 * 10))


def test_a_log_without_a_table_says_so() -> None:
    assert read_dispatch(["no table"]) == {"steps": 0}


def test_the_table_is_the_one_that_vllm_writes() -> None:
    with warnings.catch_warnings():  # torch's, while it is imported
        warnings.simplefilter("ignore")
        from vllm.compilation.cuda_graph import CUDAGraphLogging, CUDAGraphStat
        from vllm.config import CUDAGraphMode

    logging = CUDAGraphLogging(CUDAGraphMode.FULL, [1, 2, 4])
    for _ in range(3):
        logging.observe(CUDAGraphStat(3, 4, 1, "FULL"))

    found = read_dispatch(logging.generate_metric_table().splitlines())

    assert found == {"steps": 3, "share": {"full": 1.0}, "padded_over_real": 4 / 3}
