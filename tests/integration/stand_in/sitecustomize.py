"""Puts the stand-in engine before the real one, also where an editable install hooks imports."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_FOLDER = str(Path(__file__).parent)


class _StandInFirst:
    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] != "engine":
            return None
        return PathFinder.find_spec(name, [_FOLDER] if path is None else path, target)


sys.meta_path.insert(0, _StandInFirst)
