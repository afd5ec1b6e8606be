import pytest

from engine.policy import Profile, check_profile


@pytest.mark.parametrize("points", [[(1, 3.0)], [(1, 1.0), (8, 1.0), (9, 2.5)]], ids=str)
def test_a_profile_rises_from_one_token_on(points: Profile) -> None:
    check_profile(points)


@pytest.mark.parametrize(
    "points",
    [[], [(2, 1.0)], [(1, 0.0)], [(1, 1.0), (1, 2.0)], [(1, 1.0), (4, 0.5)]],
    ids=["none", "no first", "no time", "same tokens", "falling"],
)
def test_points_that_are_no_profile_are_refused(points: Profile) -> None:
    with pytest.raises(ValueError, match="must"):
        check_profile(points)
