"""The three workers: without drafts, with a head whose drafts have a price, with free drafts."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from bench.engine.methods import NONE, Method, methods_of
from bench.head.plan import POSITIONS
from engine.config import EngineSettings
from engine.errors import HeadError
from engine.models import shipped_head

HEAD, ALWAYS = "head", "head_always"

_FREE = 0.01
"""Survival at which a draft is cut where drafts are to cost next to nothing."""


def find_head(settings: EngineSettings, given: Path | None) -> Path:
    """Return the folder of the head that is measured.

    Args:
        given: What the command line names; else the profile's, else the one that ships.

    Raises:
        HeadError: There is none.
    """
    folder = given or settings.speculation.head.path or shipped_head(settings.model)
    if folder is None:
        raise HeadError(f"no head ships for {settings.model}; name a folder: --head (HEAD=folder)")
    if not folder.is_dir():
        raise HeadError(f"{folder} is no folder of a head")
    return folder.resolve()


def methods_of_head(settings: EngineSettings, folder: Path) -> Sequence[Method]:
    """Return `none`, `head` and `head_always`.

    `head_always` drafts `POSITIONS` tokens in every step, whatever the gate says; a draft is cut
    only where it is less than 1 % likely.

    Args:
        settings: Of the profile; its prices are those of `head`.
        folder: Of the head.
    """
    speculation = settings.speculation
    head = speculation.head.model_copy(update={"path": folder})
    alone = speculation.model_copy(update={"sources": (HEAD,), "native": None, "head": head})
    found = {
        method.name: method
        for method in methods_of(settings.model_copy(update={"speculation": alone}))
    }
    free = head.model_copy(update={"max_draft_tokens": POSITIONS})
    always: dict[str, JsonValue] = {
        **found[HEAD].speculation,
        "max_draft_tokens": POSITIONS,
        "fixed_price": _FREE,
        "head": free.model_dump(mode="json"),
    }
    return [found[NONE], found[HEAD], Method(ALWAYS, always)]
