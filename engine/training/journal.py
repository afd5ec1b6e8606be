"""The log of a training run: CSV files and TensorBoard, continued from the checkpoint."""

import csv
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from torch.utils.tensorboard import SummaryWriter

from engine.heads import DraftHead
from engine.training.evaluation import evaluate
from engine.training.group import Group
from engine.training.recipe import TrainSettings
from engine.training.shard import Shard
from engine.training.trainer import Outcome, learning_rate


class Journal:
    """Writes train.csv, evaluate.csv and TensorBoard files, from rank 0 only."""

    def __init__(self, folder: Path, settings: TrainSettings, *, group: Group, done: int) -> None:
        """Open the files and drop lines of steps after the checkpoint, which are done again.

        Args:
            folder: Folder of the files.
            settings: The recipe's.
            group: The processes.
            done: Steps done.
        """
        self._settings = settings
        self._group = group
        self._seen = 0.0
        self._since = time.perf_counter()
        self._tables: dict[str, Path] = {}
        self._board: SummaryWriter | None = None
        if group.is_first:
            self._tables = {name: folder / f"{name}.csv" for name in ("train", "evaluate")}
            for path in self._tables.values():
                forget_after(done, path)
            self._board = SummaryWriter(folder / "tensorboard", purge_step=done + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._board is not None:
            self._board.close()

    def note(self, step: int, outcome: Outcome) -> None:
        """Record a step; every `log_every_steps` steps, write a line."""
        self._seen += outcome.positions
        if step % self._settings.log_every_steps and step != self._settings.steps:
            return
        outcome = outcome.summed(self._group)
        seconds = time.perf_counter() - self._since
        figures = {
            "loss": outcome.loss(self._settings),
            "learning_rate": learning_rate(step - 1, self._settings),
            "positions_per_second": self._seen / max(seconds, 1e-9),
        }
        for position, (hard, hits) in enumerate(outcome.by_position(), 1):
            figures[f"cross_entropy_{position}"] = hard
            figures[f"hit_ratio_{position}"] = hits
        self._add("train", step, figures)
        self._seen, self._since = 0.0, time.perf_counter()

    def wants_evaluation(self, step: int) -> bool:
        """Tell whether an evaluation is due; the last step is evaluated separately, on all text."""
        return (
            self._group.is_first
            and step % self._settings.evaluate_every_steps == 0
            and step != self._settings.steps
        )

    def evaluate(self, step: int, head: DraftHead, held_out: Sequence[Shard]) -> None:
        """Replay the acceptance of the head as trained so far, and write a line."""
        began = time.perf_counter()
        head.eval()
        total = evaluate(head, held_out, device=self._group.device).total
        head.train()
        figures = {"acceptance_ratio": total.ratio, "acceptance_length": total.length}
        for position, survival in enumerate(total.by_position, 1):
            figures[f"survival_{position}"] = survival
        self._add("evaluate", step, figures)
        self._since += time.perf_counter() - began

    def _add(self, table: str, step: int, figures: Mapping[str, float]) -> None:
        if self._board is None:
            return
        append(step, figures, self._tables[table])
        for name, value in figures.items():
            self._board.add_scalar(f"{table}/{name}", value, step)


def append(step: int, figures: Mapping[str, float], path: Path) -> None:
    """Append a line to a table; all lines of a file have the same figures."""
    line = [str(step), *(f"{value:.6g}" for value in figures.values())]
    _write([line] if path.exists() else [["step", *figures], line], path, mode="a")


def forget_after(step: int, path: Path) -> None:
    """Drop a table's lines of later steps, and a line that a kill cut off."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", newline="") as file:
        head, *lines = list(csv.reader(file)) or [[]]
    kept = [line for line in lines if len(line) == len(head) and int(line[0]) <= step]
    if head and kept:
        _write([head, *kept], path, mode="w")
    else:
        path.unlink()


def _write(lines: Sequence[Sequence[str]], path: Path, *, mode: str) -> None:
    with path.open(mode, encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
