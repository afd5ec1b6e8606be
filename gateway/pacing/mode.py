"""Which pacing a stream gets, of what the caller asks for and what the operator has set."""

from gateway.types import PacingMode


def choose_mode(asked: PacingMode | None, *settings: PacingMode | None) -> PacingMode:
    """The mode of a stream.

    Args:
        asked: By the request.
        settings: By the operator, what counts most first: of the key, the model, the profile.

    Returns:
        What the request asks for, else the first setting; but where that setting is `private` a
        request cannot weaken it.
    """
    chosen: PacingMode = next((mode for mode in settings if mode is not None), "off")
    return chosen if asked is None or chosen == "private" else asked
