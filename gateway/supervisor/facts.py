"""What a supervisor says of its worker, also to the other processes of the gateway."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SupervisorFacts:
    """The supervised worker now.

    Attributes:
        state: `starting`, `ready`, `waiting` or `stopped`.
        pid: Its process, while it runs.
        restarts: How often it was restarted.
        last_reason: Why it was restarted last.
    """

    state: str
    pid: int | None
    restarts: int
    last_reason: str | None


def write_facts(path: Path, facts: SupervisorFacts) -> None:
    """Replace the file that the other processes read.

    Raises:
        OSError: It cannot be written.
    """
    beside = path.with_suffix(f".{os.getpid()}")
    beside.write_text(json.dumps(asdict(facts)), encoding="utf-8")
    beside.replace(path)


def read_facts(path: Path) -> SupervisorFacts | None:
    """Read the file; None before the first was written.

    Raises:
        OSError: It cannot be read.
    """
    try:
        return SupervisorFacts(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
