"""The pacing mode of a stream, from the request and the operator's settings."""

from gateway.types import PacingMode


def choose_mode(asked: PacingMode | None, *settings: PacingMode | None) -> PacingMode:
    """The mode of a stream.

    Args:
        asked: The mode in the request.
        settings: The operator's settings for the key, the model and the profile; the first one that
            is set applies.

    Returns:
        The mode in the request, else the setting that applies. A request cannot override a setting
        of `private`.
    """
    chosen: PacingMode = next((mode for mode in settings if mode is not None), "off")
    return chosen if asked is None or chosen == "private" else asked
