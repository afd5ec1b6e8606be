"""Commands about draft heads: from the worker's API process to the ranks that draft.

A command is a small file in a folder that both share. Files are numbered in their order; each is
complete when it appears, and none replaces another. Each rank reads them all, so none is removed:
the folder ends with the worker.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_FOLDER = "head-commands"


class HeadCommand(BaseModel):
    """What to do with draft heads.

    Attributes:
        action: `load` a head, `unload` the serving one, `forget` the one beside it, or
            `forget_traffic`: delete what was recorded of a tenant.
        folder: Of the head to load, on the worker's machine.
        tenant: Whose recorded traffic is deleted, by the name that requests carry; None for all.
        by: Who asks, for the log.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Literal["load", "unload", "forget", "forget_traffic"]
    folder: Path | None = None
    tenant: str | None = Field(default=None, min_length=1, max_length=200)
    by: str = Field(default="unknown", max_length=200)

    @model_validator(mode="after")
    def _check_folder(self) -> Self:
        if (self.action == "load") != (self.folder is not None):
            raise ValueError("a folder belongs to load, and only to load")
        if self.folder is not None and not self.folder.is_absolute():
            raise ValueError("the folder must be an absolute path on the worker's machine")
        if self.tenant is not None and self.action != "forget_traffic":
            raise ValueError("a tenant belongs to forget_traffic only")
        return self


def write_command(shared: Path, command: HeadCommand) -> str:
    """Append a command; return its id.

    Args:
        shared: The folder that the worker's processes share.
        command: The command.

    Raises:
        OSError: It cannot be written.
    """
    folder = shared / _FOLDER
    folder.mkdir(exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=".")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(command.model_dump_json())
        number = 1 + max(_numbers(folder), default=0)
        while True:
            try:
                os.link(name, folder / _file_name(number))
            except FileExistsError:  # another took it meanwhile
                number += 1
            else:
                return str(number)
    finally:
        Path(name).unlink()


def read_commands(shared: Path, *, after: int) -> Iterator[tuple[int, HeadCommand]]:
    """Yield the commands that follow a number, in order, each with its number.

    Args:
        shared: As for `write_command`.
        after: Number of the last command that is known; 0 for none.

    Raises:
        OSError: One cannot be read.
        ValidationError: One is no command.
    """
    folder = shared / _FOLDER
    if not folder.is_dir():
        return
    for number in sorted(number for number in _numbers(folder) if number > after):
        content = (folder / _file_name(number)).read_bytes()
        yield number, HeadCommand.model_validate_json(content)


def _numbers(folder: Path) -> list[int]:
    return [int(path.stem) for path in folder.glob("[0-9]*.json")]


def _file_name(number: int) -> str:
    return f"{number:08d}.json"
