"""Publishes trained heads: a folder appears whole, then the link that the worker watches moves."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from engine.heads import DraftHead, save_head
from engine.traffic import AdaptFolder

_KEPT = 3
_PART = ".part-"


def publish(
    head: DraftHead, folder: AdaptFolder, *, serving: Path, card: Mapping[str, JsonValue]
) -> Path:
    """Store a head and have the worker try it; older ones are deleted.

    Whenever this process is killed, the link leads to a complete head or to none.

    Args:
        head: The head.
        folder: Of worker and trainer.
        serving: Folder of the serving head, which is kept.
        card: How the head was made.

    Returns:
        The head's folder.

    Raises:
        HeadError, OSError: It cannot be written; the link is as before.
    """
    numbers = [int(path.name) for path in folder.heads.glob("[0-9]*")]
    path = folder.heads / f"{max(numbers, default=0) + 1:06d}"
    scratch = folder.heads / f"{_PART}{os.getpid()}"
    clean(folder)
    try:
        save_head(head, scratch, card=card)
        scratch.rename(path)
        link = folder.root / f"{_PART}head"
        link.unlink(missing_ok=True)
        link.symlink_to(path.relative_to(folder.root))
        link.replace(folder.head)
    finally:
        clean(folder)
    for old in sorted(folder.heads.glob("[0-9]*"))[:-_KEPT]:
        if old.resolve() != serving.resolve():
            shutil.rmtree(old)
    return path


def clean(folder: AdaptFolder) -> None:
    """Remove what a killed process left behind."""
    for path in folder.heads.glob(f"{_PART}*"):
        shutil.rmtree(path)
