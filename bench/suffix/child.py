"""The processes that hold the indexes, and the commands that are sent to them."""

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.rounds import Json

ANSWER_SECONDS = 420.0
_ROOT = Path(__file__).parents[2]
_STOP_SECONDS = 10.0


class ChildError(Exception):
    """A side failed, took too long or ended; the message has its last output."""


class Child:
    """A side's process; see worker.py for what it can be asked."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self.name = name
        self._process = process

    def ask(self, command: str, **arguments: object) -> Json:
        """Have a command run.

        Raises:
            ChildError: It failed, or was not done in `ANSWER_SECONDS`.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        alarm = threading.Timer(ANSWER_SECONDS, self._process.kill)
        alarm.start()
        try:
            self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            alarm.cancel()
        if not line:
            code = self._process.wait()
            raise ChildError(f"{self.name}: {command}: ended with {code}; see above")
        answer: dict[str, Json] = json.loads(line)
        if "found" not in answer:
            raise ChildError(f"{self.name}: {command}: {answer['error']}")
        return answer["found"]


@contextmanager
def running_child(name: str, arguments: Sequence[str | Path]) -> Iterator[Child]:
    """Start a side and end it with the block; what it prints goes to standard error."""
    process = subprocess.Popen(
        [str(argument) for argument in arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        cwd=_ROOT,
    )
    try:
        yield Child(name, process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass(frozen=True, slots=True)
class Sides:
    """How to start either side.

    Attributes:
        ours: Interpreter with this project.
        arctic: Interpreter of the peer's environment.
        tokens: What `save_datasets` wrote.
    """

    ours: Path
    arctic: Path
    tokens: Path

    def start_ours(self) -> AbstractContextManager[Child]:
        """Our index in a fresh process."""
        return running_child("ours", [self.ours, "-m", "bench.suffix.ours", self.tokens])

    def start_arctic(self) -> AbstractContextManager[Child]:
        """The peer in a fresh process."""
        arguments: list[str | Path] = [self.arctic, "-m", "bench.suffix.arctic", self.tokens]
        return running_child("arctic", arguments)
