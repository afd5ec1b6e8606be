from bench.summary import Json, put_summary, summary_of


def test_a_figure_has_its_median_and_its_spread_beside_it() -> None:
    found: Json = {}

    put_summary(found, "wait_ms", summary_of([3.0, 1.00004, 2.0]))

    assert found == {"wait_ms": 2.0, "wait_ms_spread": [1.0, 3.0]}


def test_a_figure_that_no_round_has_is_there_and_empty() -> None:
    found: Json = {}

    put_summary(found, "wait_ms", summary_of([]))

    assert found == {"wait_ms": None, "wait_ms_spread": None}
