import pytest

from gateway.pacing import choose_mode
from gateway.types import PacingMode


@pytest.mark.parametrize(
    ("asked", "key", "model", "profile", "chosen"),
    [
        (None, None, None, "smooth", "smooth"),
        (None, None, "off", "smooth", "off"),
        (None, "smooth", "off", "off", "smooth"),
        ("off", "smooth", None, "smooth", "off"),
        ("private", None, None, "off", "private"),
        ("off", "private", None, "smooth", "private"),
        ("smooth", None, "private", "smooth", "private"),
        ("off", None, None, "private", "private"),
        ("off", "smooth", "private", "private", "off"),
    ],
)
def test_the_request_overrides_settings_except_private(
    asked: PacingMode | None,
    key: PacingMode | None,
    model: PacingMode | None,
    profile: PacingMode,
    chosen: PacingMode,
) -> None:
    assert choose_mode(asked, key, model, profile) == chosen
