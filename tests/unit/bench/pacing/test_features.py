"""Features have one length, and hold what a packet gives away."""

import numpy as np
import pytest

from bench.pacing.features import GROUPS, Bare, features, table
from bench.pacing.figures import Values

BARE = Bare(first=300.0, later=200.0)


def seen(*packets: tuple[float, float]) -> tuple[Values, Values]:
    return np.array([at for at, _ in packets]), np.array([size for _, size in packets])


SHORT = seen((50.0, 303.0))
USUAL = seen((50.0, 303.0), (70.0, 205.0), (90.0, 204.0), (91.0, 201.0))
LONG = seen(*[(50.0 + 20.0 * n, 300.0 + n % 7) for n in range(500)])


@pytest.mark.parametrize("group", GROUPS)
def test_answers_of_any_length_have_as_many_features(group: str) -> None:
    found = table([SHORT, USUAL, LONG])[group]

    assert found.shape[0] == 3
    assert np.isfinite(found).all()


def test_borders_are_where_the_text_is_cut() -> None:
    borders = features(*USUAL, BARE)["borders"]

    assert list(np.flatnonzero(borders[:320])) == [3, 8, 12, 13]


def test_two_chunks_in_one_packet_weigh_twice() -> None:
    two = seen((50.0, 303.0), (70.0, 409.0))

    assert list(np.flatnonzero(features(*two, BARE)["borders"][:320])) == [3, 12]


@pytest.mark.parametrize(
    ("change", "changed", "same"),
    [
        (seen((50.0, 303.0), (71.0, 205.0), (90.0, 204.0), (91.0, 201.0)), "times", "sizes"),
        (seen((50.0, 303.0), (70.0, 206.0), (90.0, 203.0), (91.0, 201.0)), "sizes", "times"),
        (seen((55.0, 303.0), (75.0, 205.0), (95.0, 204.0), (96.0, 201.0)), "totals", "borders"),
    ],
    ids=["one-packet-late", "one-byte-moved", "late-from-the-first"],
)
def test_a_change_shows_in_its_view_only(
    change: tuple[Values, Values], changed: str, same: str
) -> None:
    before, after = features(*USUAL, BARE), features(*change, BARE)

    assert (before[changed] != after[changed]).any()
    assert (before[same] == after[same]).all()
    assert (before["all"] != after["all"]).any()
