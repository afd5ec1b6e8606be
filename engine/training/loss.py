"""What a head is trained to make small, and how often it is right already."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.heads import IGNORED, DraftHead
from engine.training.context import recall
from engine.training.examples import Examples, Labels
from engine.training.recipe import TrainSettings


@dataclass(frozen=True, slots=True)
class Counts:
    """Labels of a whole batch, float32, [positions].

    Attributes:
        hard: Those of answers that the head can draft.
        all: Those of answers.
        soft: All, with their weights.
    """

    hard: Tensor
    all: Tensor
    soft: Tensor

    @classmethod
    def of(cls, labels: Labels) -> "Counts":
        """Count."""
        return cls(
            (labels.draft_ids != IGNORED).sum((0, 1)).float(),
            labels.exist.sum((0, 1)).float(),
            labels.weights.sum((0, 1)),
        )


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over the labels of some runs, float32, [positions]; differentiable but for `hits`.

    Attributes:
        hard: Cross-entropy against the token that came, where the head can draft it.
        soft: Cross-entropy against the target's own distribution over what the head can draft, each
            with its weight.
        hits: How often no token is likelier to the head than the one that came.
    """

    hard: Tensor
    soft: Tensor
    hits: Tensor


def sum_losses(
    head: DraftHead, examples: Examples, teacher: Tensor | None, *, learns_hard: bool = True
) -> Sums:
    """Run a head over some runs, each position given the true tokens before it.

    The hard loss is that of the notes: cross-entropy on x_{t+i+2} at position i. For the soft one
    the target's distribution needs no forward pass: its state at that place is at hand, and the
    output rows of the draft vocabulary make logits of it.

    Args:
        head: In training.
        examples: On its device.
        teacher: The target's output rows of the draft vocabulary, [draft_vocab, hidden_size], for
            the soft loss; None leaves it zero.
        learns_hard: Whether anybody wants the gradient of the hard loss.
    """
    run_tokens, positions = examples.tokens.shape[1:]
    taught = None if teacher is None else _teach(examples, teacher)
    # As plain rows: with a dimension more, torch multiplies run by run.
    scores = head(
        examples.hidden[:, :run_tokens].flatten(0, 1),
        examples.tokens.flatten(0, 1),
        None if examples.before is None else recall(head, examples.before),
    )
    hard, soft, hits = [], [], []
    for position, score in enumerate(scores):
        labels = examples.labels.draft_ids[..., position].flatten()
        known = labels != IGNORED
        logs = functional.log_softmax(score, -1, dtype=torch.float32)
        said = (logs if learns_hard else logs.detach()).gather(-1, labels.clamp_min(0)[:, None])[
            :, 0
        ]
        hard.append(-(said * known).sum())
        hits.append((known & (said == logs.detach().amax(-1))).sum())
        if taught is not None:
            wanted = taught[:, position : position + run_tokens].flatten(0, 1)
            apart = -(wanted * logs).sum(-1)
            soft.append((apart * examples.labels.weights[..., position].flatten()).sum())
    none = torch.zeros(positions, device=examples.tokens.device)
    return Sums(torch.stack(hard), torch.stack(soft) if soft else none, torch.stack(hits).float())


@torch.no_grad()
def _teach(examples: Examples, teacher: Tensor) -> Tensor:
    """Return the target's distributions behind the rows of the runs, from the second row on.

    Returns:
        float32, [runs, run_tokens + positions - 1, draft_vocab].
    """
    states = examples.hidden[:, 1:]
    logits = functional.linear(states.flatten(0, 1).to(teacher.dtype), teacher)
    shares: Tensor = logits.softmax(-1, dtype=torch.float32).unflatten(0, states.shape[:2])
    return shares


def weigh(sums: Sums, counts: Counts, settings: TrainSettings) -> Tensor:
    """Return the loss of some runs as their part of the batch's: over all runs they add up to it.

    Args:
        sums: Of the runs.
        counts: Of the whole batch, on the same device.
        settings: Weights of positions, and of the soft loss.
    """
    weights = sums.hard.new_tensor(settings.position_weights or [1.0] * len(sums.hard))
    share = settings.distillation_ratio
    hard = sums.hard / counts.hard.clamp_min(1)
    soft = sums.soft / counts.soft.clamp_min(1)
    return (weights * ((1 - share) * hard + share * soft)).sum()
