"""Lets the head learn from the traffic of tenants that agreed: the worker's part (docs/adr/0040).

A recorder follows the steps (collection.py), a thread stores what it recorded (`engine.traffic`),
and a process of the lowest priority trains (`engine.training.adapt`). What that publishes comes in
as any changed head of a watched folder does. No failure of any of these reaches serving.
"""

import logging
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import JsonValue

from engine.config import AdaptSettings, process_environment
from engine.drafting import Control
from engine.heads import SharedTables
from engine.traffic import (
    OUTCOMES,
    AdaptFolder,
    Ring,
    Seal,
    SegmentWriter,
    delete_segments,
    digest_of,
)
from engine.worker.collection import Recorder
from engine.worker.metrics import AdaptMetrics
from engine.worker.periodic import Periodic
from engine.worker.report import ReportPart

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0
_STOP_SECONDS = 5.0
_PAUSE_LOOKS = 12
"""Looks for which a trainer that ended is not started again."""


class Adaptation:
    """Records traffic on one rank; rank 0 also runs the trainer.

    Attributes:
        recorder: Follows the steps.

    Args:
        settings: Where to, how much, and how often to train.
        control: Returns what a request asks for.
        rank: Of the data-parallel engine.
        ranks: Number of those.
        target: Names the model and its tokenizer.
        report: The part of `GET /speculation`.

    Raises:
        TrafficError: The key file cannot be used.
        OSError: What is recorded already cannot be listed.
    """

    def __init__(
        self,
        settings: AdaptSettings,
        control: Callable[[str], Control],
        *,
        rank: int,
        ranks: int,
        target: str,
        report: ReportPart,
    ) -> None:
        seal = Seal.from_file(settings.key_file)
        self._folder = AdaptFolder(settings.folder.absolute())
        self._is_first = rank == 0
        self._target = digest_of(target)
        self._ring = Ring(
            self._folder.segments(rank), max_bytes=(settings.max_mb << 20) // ranks, seal=seal
        )
        self._writer = SegmentWriter(self._ring)
        self.recorder = Recorder(self._writer, control, target=self._target)
        self._metrics = AdaptMetrics()
        self._report = report
        self._serving: Path | None = None
        self._trainer = TrainerProcess(_command(self._folder.root, settings))
        self._threads: list[Periodic] = []

    @property
    def watched(self) -> Path:
        """The folder in which trained heads appear."""
        return self._folder.head

    def start(self, tables: SharedTables, tokenizer: str | None) -> None:
        """Train from now on, on the first rank.

        Args:
            tables: Of the target.
            tokenizer: SHA-256 of its tokenizer.json.
        """
        if not self._is_first:
            return
        try:
            self._folder.write_tables(tables.embedding, tables.output, tokenizer=tokenizer)
        except OSError as exc:
            _log.error("the head cannot adapt: %s; traffic is recorded all the same", exc)
            return
        work = Periodic(self._trainer.look, seconds=_LOOK_SECONDS, name="trainer's watch")
        self._threads.append(work)

    def delete(self, tenant: str | None) -> int:
        """Delete what was recorded of a tenant, or of all; return the number of segments.

        Raises:
            OSError: A file cannot be deleted.
        """
        digest = None if tenant is None else digest_of(tenant)
        deleted = self._ring.forget(digest)
        for ring in self._folder.rings:  # also of ranks that no longer exist
            deleted += delete_segments(ring, digest)
        self._folder.note_deletion()
        return deleted

    def publish(self, serving: Path | None) -> None:
        """Tell metrics, report and trainer the state of things.

        Args:
            serving: Folder of the serving head; None if there is none.

        Raises:
            OSError: The folder cannot be read or written.
        """
        status = self._folder.read_status() if self._is_first else {}
        counted = status.get("outcomes")
        trainings = dict.fromkeys(OUTCOMES, 0) if self._is_first else {}
        if isinstance(counted, dict):
            trainings |= {name: int(str(count)) for name, count in counted.items()}
        if self._is_first:
            trainings["killed"] = self._trainer.killed
        writer = self._writer
        self._metrics.publish(writer.tokens, writer.dropped, self._ring.bytes, trainings)
        facts: dict[str, JsonValue] = {
            "tokens": writer.tokens,
            "dropped_segments": dict(writer.dropped),
            "bytes": self._ring.bytes,
            "trainings": dict(trainings),
            "last_training": status.get("last"),
        }
        self._report.write(facts)
        if self._is_first and serving is not None and serving != self._serving:
            self._folder.write_serving(serving, self._target)
            self._serving = serving

    def stop(self) -> None:
        """Store what was recorded, and end the trainer."""
        self._trainer.is_stopped = True  # its watch looks once more when it ends
        for thread in self._threads:
            thread.stop()
        self._trainer.stop()
        self.recorder.clear()
        self._writer.stop()


class TrainerProcess:
    """The process that trains. It is started again some time after it ended.

    Attributes:
        killed: How often it ended although nobody stopped it.
        is_stopped: Whether it is not started any more.

    Args:
        command: Starts it.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.killed = 0
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._pause = 0
        self.is_stopped = False

    def look(self) -> None:
        """Start it if it does not run; always called by the same thread, with which it ends.

        Raises:
            OSError: It cannot be started.
        """
        if self.is_stopped:
            return
        if self._process is not None and self._process.poll() is not None:
            _log.warning("the trainer ended with status %d", self._process.returncode)
            self.killed += 1
            self._process, self._pause = None, _PAUSE_LOOKS
        if self._process is not None:
            return
        if self._pause:
            self._pause -= 1
            return
        environment = {**process_environment(), **_ALONE}
        self._process = subprocess.Popen(  # noqa: S603  # our own module
            self._command, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )

    def stop(self) -> None:
        """End it."""
        self.is_stopped = True
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_ALONE = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
"""The trainer's environment: it leaves the GPUs and all cores but one to the worker."""


def _command(folder: Path, settings: AdaptSettings) -> list[str]:
    command = [sys.executable, "-m", "engine.training.adapt", str(folder)]
    command += ["--every-tokens", str(settings.every_tokens), "--die-with-parent"]
    if settings.key_file is not None:
        command += ["--key-file", str(settings.key_file.absolute())]
    return command
