import pytest

from gateway.cli.live_page import Values, fit, last_known, latest, recent_acceptance


def test_the_latest_value_may_be_unknown() -> None:
    assert latest([1.0, 2.0]) == 2.0
    assert latest([1.0, None]) is None
    assert latest([]) is None


def test_the_last_known_value_is_found() -> None:
    assert last_known([1.0, 2.0, None]) == 2.0
    assert last_known([None]) is None


@pytest.mark.parametrize(
    ("values", "width", "fitted"),
    [
        ([1, 2, 3], 3, [1, 2, 3]),
        ([1, 2, 3], 9, [1, 2, 3]),
        ([1, 3, 5, 7], 2, [2, 6]),
        ([1, None, None, None], 2, [1, None]),
        ([1, 2, 3, 4, 5], 2, [1.5, 4]),
        ([1, 2, 3], 0, []),
        ([1, 2, 3], -1, []),
        ([], 5, []),
    ],
    ids=["exact", "room", "means", "unknown", "uneven", "none", "negative", "empty"],
)
def test_values_are_brought_to_a_width(
    values: Values, width: int, fitted: list[float | None]
) -> None:
    assert fit(values, width) == fitted


def test_acceptance_is_weighted_by_what_was_drafted() -> None:
    assert recent_acceptance([9.0, 10.0, 30.0], [0.0, 0.2, 0.6], last=2) == (20.0, 0.5)


def test_without_drafts_there_is_no_acceptance() -> None:
    assert recent_acceptance([0.0, None], [None, None], last=12) == (0.0, None)
