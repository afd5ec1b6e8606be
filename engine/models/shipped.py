"""The draft heads shipped with the package, by the catalogue name of their target."""

from pathlib import Path

_FOLDER = Path(__file__).parent / "heads"


def shipped_head(model: str) -> Path | None:
    """Return the folder of the head for a catalogue model; None if none ships for it."""
    folder = _FOLDER / model
    # A model that is an absolute path would be its own head.
    is_ours = folder.parent == _FOLDER and (folder / "config.json").is_file()
    return folder if is_ours else None
