"""`python -m engine.training.native.trainer ARGUMENTS`: the library's training command.

A process of its own, because the library sets up logging, signals and devices for all of it. Ours
adds what the library 0.9 lacks: it runs on CPUs, shows our progress bar, and what it saves when it
is stopped is where the next run resumes.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from loguru import logger
from speculators.train import checkpointer, cli
from speculators.train import trainer as library
from speculators.train.config import TrainConfig

from engine.lifetime import die_with_parent
from engine.training.interruption import put_off_signals
from engine.training.native.process import FINISHED
from engine.training.progress import report, shown_progress

if TYPE_CHECKING:
    _Trainer: Any = object
else:
    _Trainer = library.Trainer

_INTERRUPTED = "interrupted"  # what the library calls a checkpoint that it does not resume from


class Trainer(_Trainer):
    """The library's trainer."""

    _epoch = 0
    _step = 0

    def setup_trainer(self) -> None:
        """Find out where to resume; on CPUs, compute there."""
        if not torch.accelerator.is_available():
            self.local_rank = self.device_type = "cpu"
        super().setup_trainer()

    def train_epoch(self, epoch: int, **_: Any) -> None:
        """Train for one epoch, or for the rest of it."""
        self._epoch, self._step = epoch, self._resume_local_step
        steps = len(self.train_loader)
        with shown_progress(
            f"epoch {epoch + 1}", done=self._step, total=steps, unit="step"
        ) as advance:
            super().train_epoch(epoch, step_callback=self._counting(advance))
        self._step = 0

    def val_epoch(self, epoch: int) -> dict[str, float] | None:
        """Measure the loss on what is held out, and say it."""
        found: dict[str, float] | None = super().val_epoch(epoch)
        if found and "loss_epoch" in found:
            report(f"epoch {epoch + 1}: loss {found['loss_epoch']:.3f} on held-out text")
        return found

    def maybe_save_checkpoint(self, epoch: int | str, local_step: int = 0) -> None:
        """Save a checkpoint; one of a stopped run under its epoch, so that it is resumed from.

        A signal takes effect after it. If it is killed meanwhile, the checkpoint has no state, and
        `NativeRun` removes it.
        """
        if epoch == _INTERRUPTED:
            if not self._step:
                return  # the last checkpoint has everything
            epoch, local_step = self._epoch, self._step
        with put_off_signals():
            self._training_state_path(epoch).unlink(missing_ok=True)
            super().maybe_save_checkpoint(epoch, local_step)

    def maybe_update_best(self, epoch: int, val_metrics: dict[str, float] | None) -> None:
        """Remember the best epoch, and that the last one is done."""
        super().maybe_update_best(epoch, val_metrics)
        if epoch + 1 == self.config.num_epochs:
            (self.checkpointer.path / FINISHED).touch()

    def _counting(self, advance: Callable[[int], None]) -> Callable[[], None]:
        def count() -> None:
            self._step += 1
            advance(1)

        return count


def main() -> int:
    """Train as the arguments say, which are those of `python -m speculators train`."""
    # The library takes SIGINT as a wish to stop, and SIGTERM, too.
    die_with_parent(os.getppid(), death_signal=signal.SIGTERM)
    if not torch.accelerator.is_available():
        torch.accelerator.synchronize = _do_nothing  # the library's timer calls it
        checkpointer.get_current_device = _cpu  # the library says cuda:0
    logger.configure(handlers=[{"sink": sys.stdout}])  # the log, where logging writes, too
    logging.captureWarnings(True)
    library.tqdm = _plain  # ours is shown
    cli.Trainer = Trainer
    cli.main(TrainConfig.resolve(sys.argv[1:]))
    return 0


def _do_nothing(*_: Any, **__: Any) -> None:
    pass


def _cpu() -> str:
    return "cpu"


def _plain(items: Any, **_: Any) -> Any:
    return items


if __name__ == "__main__":
    sys.exit(main())
