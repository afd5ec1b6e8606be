"""The report of a worker's speculation: each process writes a part, the API server joins them.

The parts are small files in the folder that vLLM's processes share for metrics
(`PROMETHEUS_MULTIPROC_DIR`), written once a second.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from engine.config import process_environment

_PREFIX = "specgate-"


def report_folder() -> Path | None:
    """Return the folder of this worker's parts; None outside of a worker."""
    folder = process_environment().get("PROMETHEUS_MULTIPROC_DIR")
    return None if folder is None else Path(folder)


class Report:
    """One process's part of the report.

    Args:
        folder: Where to write; None writes nothing.
        part: Name of the part, such as `gate`.
        engine: Index of the data-parallel engine that the process belongs to.
    """

    def __init__(self, folder: Path | None, part: str, engine: int) -> None:
        self._path = None if folder is None else folder / f"{_PREFIX}{engine}-{part}.json"

    def write(self, facts: Mapping[str, JsonValue]) -> None:
        """Replace the part.

        Raises:
            OSError: The file cannot be written.
        """
        if self._path is None:
            return
        beside = self._path.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(facts), encoding="utf-8")
        beside.replace(self._path)


def read_reports(folder: Path) -> dict[str, JsonValue]:
    """Join the parts of all engines: `{"engines": [{"engine": 0, <part>: {...}, ...}, ...]}`.

    Raises:
        OSError: A part cannot be read.
    """
    engines: dict[int, dict[str, JsonValue]] = {}
    for path in sorted(folder.glob(f"{_PREFIX}*.json")):
        number, _, part = path.stem.removeprefix(_PREFIX).partition("-")
        facts = json.loads(path.read_text(encoding="utf-8"))
        engines.setdefault(int(number), {"engine": int(number)})[part] = facts
    return {"engines": [engines[number] for number in sorted(engines)]}
