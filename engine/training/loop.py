"""Step 3: the training loop, resumed from the last checkpoint."""

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from engine.training.group import Group
from engine.training.interruption import put_off_signals
from engine.training.journal import Journal
from engine.training.order import Batch, order_batches
from engine.training.progress import shown_progress
from engine.training.recipe import TrainSettings
from engine.training.shard import Shard
from engine.training.states import States
from engine.training.trainer import Trainer

CHECKPOINT_FILE = "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class Course:
    """What a head is trained on, and where its checkpoint and log are.

    Attributes:
        folder: Folder of checkpoint and journal.
        mark: Digest of what is trained on which data; see `Checkpoint`.
        seed: Seed of the order.
        states: Text to train on.
        held_out: Text for evaluations during training.
        window_shards: Number of shards within which rows are shuffled; None for all.
    """

    folder: Path
    mark: str
    seed: int
    states: States
    held_out: Sequence[Shard]
    window_shards: int | None


def train(trainer: Trainer, course: Course, settings: TrainSettings, *, group: Group) -> None:
    """Train until `settings.steps` are done, from the last checkpoint on.

    A termination signal takes effect between two steps, after a checkpoint.

    Raises:
        TrainingError: The checkpoint belongs to a different run, or cannot be written.
    """
    course.folder.mkdir(parents=True, exist_ok=True)
    done = restore(trainer, course)
    group.wait()  # no process writes a checkpoint before all have read it
    if done == settings.steps:
        return
    with (
        put_off_signals() as is_asked_to_stop,
        Journal(course.folder, settings, group=group, done=done) as journal,
        shown_progress("train", done=done, total=settings.steps, unit="step") as advance,
    ):
        saved, saved_at = done, time.monotonic()
        for step, (batch, shards) in enumerate(_batches(course, settings, done), done + 1):
            outcome = trainer.step(step - 1, batch, shards, stop=is_asked_to_stop())
            advance(1 if group.is_first else 0)
            journal.note(step, outcome)
            if journal.wants_evaluation(step):
                journal.evaluate(step, trainer.head, course.held_out)
            is_last = outcome.is_stopped or step == settings.steps
            is_long_ago = (
                step - saved >= settings.checkpoint_every_steps
                or time.monotonic() - saved_at >= settings.checkpoint_every_s
            )
            if group.is_first and (is_last or is_long_ago):
                _save(trainer, course, step)
                saved, saved_at = step, time.monotonic()
            if is_last:
                break


def restore(trainer: Trainer, course: Course) -> int:
    """Load the last checkpoint, if any; returns the number of steps done.

    Raises:
        TrainingError: It is damaged, or belongs to a different run.
    """
    found = load_checkpoint(course.folder / CHECKPOINT_FILE, mark=course.mark)
    if found is None:
        return 0
    trainer.head.load_state_dict(found.weights)
    trainer.load_state(found.optimizer)
    trainer.micro_batch_tokens = found.micro_batch_tokens
    return found.step


def _batches(
    course: Course, settings: TrainSettings, done: int
) -> Iterator[tuple[Batch, Sequence[Shard]]]:
    """Yield the remaining batches, each with the shards of its window."""
    batches = order_batches(
        course.states.rows,
        seed=course.seed,
        run_tokens=settings.run_tokens,
        batch_tokens=settings.batch_tokens,
        window_shards=course.window_shards,
    )
    window: tuple[int, ...] = ()
    shards: Sequence[Shard] = ()
    for batch in itertools.islice(batches, done, settings.steps):
        if batch.window != window:
            window, shards = batch.window, course.states.load(batch.window)
        yield batch, shards


def _save(trainer: Trainer, course: Course, step: int) -> None:
    save_checkpoint(
        Checkpoint(
            mark=course.mark,
            step=step,
            micro_batch_tokens=trainer.micro_batch_tokens,
            weights=trainer.head.state_dict(),
            optimizer=trainer.state(),
        ),
        course.folder / CHECKPOINT_FILE,
    )
