"""One training step: gradients of a batch over micro-batches and processes, then AdamW."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.errors import TrainingError
from engine.heads import DraftHead
from engine.processor import multiplies_bfloat16
from engine.training.examples import Cutter
from engine.training.group import Group
from engine.training.loss import Counts, Sums, sum_losses, weigh
from engine.training.memory import is_out_of_memory
from engine.training.order import Batch
from engine.training.recipe import TrainSettings
from engine.training.shard import Shard


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a step.

    Attributes:
        sums: Sums over the runs of one process, or of all.
        counts: Counts of the whole batch.
        is_stopped: Whether any process was asked to stop.
    """

    sums: Sums
    counts: Counts
    is_stopped: bool

    @property
    def positions(self) -> float:
        """Number of answer rows in the batch."""
        return float(self.counts.all[0])

    def summed(self, group: Group) -> "Outcome":
        """Return it with sums over all processes, which must all call this."""
        sums = group.sum(torch.stack([self.sums.hard, self.sums.soft, self.sums.hits]))
        return Outcome(Sums(*sums), self.counts, self.is_stopped)

    def loss(self, settings: TrainSettings) -> float:
        """Return the loss of the batch; requires `summed`."""
        return float(weigh(self.sums, self.counts, settings))

    def by_position(self) -> list[tuple[float, float]]:
        """Return cross-entropy and hit ratio at each position; requires `summed`."""
        hard = (self.sums.hard / self.counts.hard.clamp_min(1)).tolist()
        hits = (self.sums.hits / self.counts.all.clamp_min(1)).tolist()
        return list(zip(hard, hits, strict=True))


class Trainer:
    """A head in training.

    Each process computes the gradient of its share of the runs, in micro-batches, normalised by the
    counts of the whole batch. The total is the same for any number of processes and micro-batches,
    up to rounding.

    Attributes:
        head: The head, on the group's device.
        micro_batch_tokens: Positions computed at once; halved if memory runs out.
    """

    def __init__(
        self,
        head: DraftHead,
        cutter: Cutter,
        settings: TrainSettings,
        *,
        teacher: Tensor | None,
        group: Group,
    ) -> None:
        """Set up the optimizer.

        Args:
            head: Its weights are changed in place.
            cutter: Made for this head's vocabulary and positions.
            settings: The recipe's.
            teacher: The target's output rows of the draft vocabulary, for the soft loss.
            group: The processes.
        """
        self.head = head
        self.micro_batch_tokens = settings.micro_batch_tokens
        self._cutter = cutter
        self._settings = settings
        self._teacher = teacher
        self._group = group
        self._in_bfloat16 = settings.bfloat16
        if settings.bfloat16 is None:
            self._in_bfloat16 = group.device.type != "cpu" or multiplies_bfloat16()
        self._parameters = [p for p in head.parameters() if p.requires_grad]
        self._optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in self._parameters if p.ndim > 1]},
                {"params": [p for p in self._parameters if p.ndim == 1], "weight_decay": 0.0},
            ],
            lr=settings.learning_rate,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
        )

    def state(self) -> dict[str, Any]:
        """Return the optimizer's state dict."""
        state: dict[str, Any] = self._optimizer.state_dict()
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Load the optimizer's state dict."""
        self._optimizer.load_state_dict(state)

    def step(self, number: int, batch: Batch, shards: Sequence[Shard], *, stop: bool) -> Outcome:
        """Do one step.

        Args:
            number: Number of the step, from 0.
            batch: What to train on.
            shards: The shards of the batch's window.
            stop: Whether this process was asked to stop.

        Returns:
            The outcome, with sums over this process's runs.

        Raises:
            TrainingError: There is not enough memory for a single run.
        """
        runs = batch.runs[np.argsort(batch.runs[:, 0], kind="stable")]
        labels = self._cutter.label(shards, runs)
        counts = Counts.of(labels.to(self._group.device))
        mine = runs[self._group.rank :: self._group.processes]
        while True:
            sums = self._try_gradient(mine, shards, counts)
            flags = torch.tensor([float(sums is None), float(stop)], device=self._group.device)
            failed, stopped = self._group.sum(flags).tolist()
            if sums is not None and not failed:
                break
            self._halve()
        self._share_gradient()
        torch.nn.utils.clip_grad_norm_(self._parameters, self._settings.clip_norm)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(number, self._settings)
        self._optimizer.step()
        return Outcome(sums, counts, bool(stopped))

    def _try_gradient(
        self, runs: NDArray[np.int64], shards: Sequence[Shard], counts: Counts
    ) -> Sums | None:
        """Compute this process's share of the gradient; None if memory ran out."""
        try:
            return self._gradient(runs, shards, counts)
        except RuntimeError as exc:
            if not is_out_of_memory(exc):
                raise
        return None

    def _gradient(self, runs: NDArray[np.int64], shards: Sequence[Shard], counts: Counts) -> Sums:
        for parameter in self._parameters:
            parameter.grad = torch.zeros_like(parameter)
        none = torch.zeros_like(counts.all)
        total = Sums(none, none, none)
        at_once = max(1, self.micro_batch_tokens // self._settings.run_tokens)
        device = self._group.device
        for begin in range(0, len(runs), at_once):
            examples = self._cutter.cut(shards, runs[begin : begin + at_once]).to(device)
            with torch.autocast(device.type, torch.bfloat16, enabled=self._in_bfloat16):
                sums = sum_losses(
                    self.head,
                    examples,
                    self._teacher,
                    temperature=self._settings.distillation_temperature,
                    learns_hard=self._settings.distillation_ratio < 1,
                )
            weigh(sums, counts, self._settings).backward()
            total = Sums(
                total.hard + sums.hard.detach(),
                total.soft + sums.soft.detach(),
                total.hits + sums.hits,
            )
        return total

    def _halve(self) -> None:
        if self.micro_batch_tokens <= self._settings.run_tokens:
            raise TrainingError(
                f"not enough memory for one run of {self._settings.run_tokens} positions; "
                "reduce train.run_tokens or head.draft_vocab_size"
            )
        self.micro_batch_tokens //= 2
        if self._group.device.type == "cuda":
            torch.cuda.empty_cache()

    def _share_gradient(self) -> None:
        if self._group.processes == 1:
            return
        gradients = [parameter.grad for parameter in self._parameters]
        flat = self._group.sum(torch.cat([gradient.flatten() for gradient in gradients]))
        parts = flat.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


def learning_rate(step: int, settings: TrainSettings) -> float:
    """Return the learning rate of a step, from 0: linear warm-up, then cosine decay."""
    warm = max(1, round(settings.warmup_ratio * settings.steps))
    if step < warm:
        return settings.learning_rate * (step + 1) / warm
    done = (step - warm) / max(1, settings.steps - warm)
    fall = (1 + math.cos(math.pi * min(done, 1.0))) / 2
    return settings.learning_rate * (settings.final_ratio + (1 - settings.final_ratio) * fall)
