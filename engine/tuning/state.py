"""The folder of a tuning: one JSON file for each finished measurement, so that it can go on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import ConfigError

_KEY = "tuning.json"
_SPENT = "spent.json"


class State:
    """What was measured.

    Args:
        folder: Is made if there is none.
        key: What the measurements depend on: model, data, version.
        fresh: Forget what was measured before.

    Raises:
        ConfigError: The folder holds measurements of something else, or is no folder of a tuning.
    """

    def __init__(self, folder: Path, key: Mapping[str, Any], *, fresh: bool = False) -> None:
        self.folder = folder
        if folder.exists():
            self._check(key, fresh=fresh)
        (folder / "measured").mkdir(parents=True, exist_ok=True)
        write_json(folder / _KEY, key)

    def _check(self, key: Mapping[str, Any], *, fresh: bool) -> None:
        if not folder_is_ours(self.folder):
            raise ConfigError([f"{self.folder}: exists and holds no tuning; use another --out"])
        if fresh:
            for path in (self.folder / "measured").glob("*.json"):
                path.unlink()
            (self.folder / _SPENT).unlink(missing_ok=True)
            return
        if not (self.folder / _KEY).exists():
            return
        known = read_json(self.folder / _KEY)
        other = [name for name in key if known.get(name) != key[name]]
        if other:
            raise ConfigError(
                [
                    f"{self.folder}: holds a tuning with another {other[0]}; use --fresh to start "
                    "over, or another --out"
                ]
            )

    @property
    def spent_seconds(self) -> float:
        """Time that was spent on measuring, in all calls."""
        path = self.folder / _SPENT
        return float(read_json(path)["seconds"]) if path.exists() else 0.0

    def spend(self, seconds: float) -> None:
        """Add to it."""
        write_json(self.folder / _SPENT, {"seconds": self.spent_seconds + seconds})

    def load(self, name: str) -> dict[str, Any] | None:
        """Return a measurement; None if it is not finished."""
        path = self.folder / "measured" / f"{name}.json"
        return read_json(path) if path.exists() else None

    def save(self, name: str, measured: Mapping[str, Any]) -> None:
        """Keep a measurement."""
        write_json(self.folder / "measured" / f"{name}.json", measured)

    def names(self, prefix: str) -> list[str]:
        """Return the names of measurements that begin so, sorted."""
        return sorted(path.stem for path in (self.folder / "measured").glob(f"{prefix}*.json"))


def folder_is_ours(folder: Path) -> bool:
    """Tell whether a folder is empty or of a tuning."""
    return folder.is_dir() and ((folder / _KEY).exists() or not any(folder.iterdir()))


def read_json(path: Path) -> dict[str, Any]:
    """Read a file of ours.

    Raises:
        ConfigError: It is damaged.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as exc:
        raise ConfigError([f"{path}: damaged ({exc}); use --fresh to start over"]) from exc
    if not isinstance(found, dict):
        raise ConfigError([f"{path}: damaged; use --fresh to start over"])
    return found


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a file at once."""
    write_text(path, json.dumps(content))


def write_text(path: Path, content: str) -> None:
    """Replace a file at once."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(content, encoding="utf-8")
    beside.replace(path)
