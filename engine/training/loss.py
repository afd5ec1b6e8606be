"""The training loss of a head, and its accuracy."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from engine.heads import IGNORED, DraftHead
from engine.training.context import recall
from engine.training.examples import Examples, Labels
from engine.training.recipe import TrainSettings

_ROWS_AT_ONCE = 64
"""Rows whose logits of some thousand tokens fit into a CPU's cache."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of labels in a whole batch, float32, [positions].

    Attributes:
        hard: Labels of answers that the head can draft.
        all: Labels of answers.
        soft: Sum of the weights of all labels.
    """

    hard: Tensor
    all: Tensor
    soft: Tensor

    @classmethod
    def of(cls, labels: Labels) -> "Counts":
        """Count the labels."""
        return cls(
            (labels.draft_ids != IGNORED).sum((0, 1)).float(),
            labels.exist.sum((0, 1)).float(),
            labels.weights.sum((0, 1)),
        )


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over the labels of some runs, float32, [positions]; differentiable except `hits`.

    Attributes:
        hard: Cross-entropy against the true token, where the head can draft it.
        soft: Weighted cross-entropy against the target's distribution over the draft vocabulary.
        hits: How often the true token has the highest score.
    """

    hard: Tensor
    soft: Tensor
    hits: Tensor


def sum_losses(
    head: DraftHead,
    examples: Examples,
    teacher: Tensor | None,
    *,
    temperature: float = 1.0,
    learns_hard: bool = True,
) -> Sums:
    """Run a head over some runs, each position given the true tokens before it (teacher forcing).

    The hard loss is the cross-entropy of token x_{t+i+2} at position i (arXiv:2404.19124). The soft
    loss needs no forward pass of the target: its recorded state, multiplied with its output rows of
    the draft vocabulary, gives the logits.

    Args:
        head: The head in training.
        examples: On the head's device.
        teacher: The target's output rows of the draft vocabulary, [draft_vocab, hidden_size], for
            the soft loss; None leaves it zero.
        temperature: Temperature of the target's distribution in the soft loss.
        learns_hard: Whether the gradient of the hard loss is needed.
    """
    run_tokens, positions = examples.tokens.shape[1:]
    more = _seen_beside(head, examples)
    if more is not None and teacher is not None:
        assert head.shared.output is not None
        teacher = torch.cat([teacher, head.shared.output[more].to(teacher.dtype)])
    taught = None if teacher is None else _teach(examples, teacher, temperature)
    # Flattened: with a third dimension, torch would multiply run by run.
    scores = head(
        examples.hidden[:, :run_tokens].flatten(0, 1),
        examples.tokens.flatten(0, 1),
        None if examples.before is None else recall(head, examples.before),
        more,
    )
    hard, soft, hits = [], [], []
    for position, score in enumerate(scores):
        labels = examples.labels.draft_ids[..., position].flatten()
        known = labels != IGNORED
        said = score.detach().gather(-1, labels.clamp_min(0)[:, None])[:, 0]
        hits.append((known & (said == score.detach().amax(-1))).sum())
        if learns_hard or taught is None:
            hard.append(functional.cross_entropy(score.float(), labels, reduction="sum"))
        if taught is not None:
            wanted = taught[:, position : position + run_tokens].flatten(0, 1)
            weights = examples.labels.weights[..., position].flatten()
            apart, normalisers = _SoftCrossEntropy.apply(score, wanted, weights)
            soft.append(apart)
            if not learns_hard:
                hard.append(((normalisers - said) * known).sum())
    none = torch.zeros(positions, device=examples.tokens.device)
    return Sums(torch.stack(hard), torch.stack(soft) if soft else none, torch.stack(hits).float())


def _seen_beside(head: DraftHead, examples: Examples) -> Tensor | None:
    """Return the tokens in these rows' windows that the vocabulary lacks, if the head drafts them.

    When drafting, each row has its own such tokens. In training all rows of a micro-batch share
    them: one product for all is cheaper, and additional wrong candidates do no harm. So the size of
    a micro-batch affects results by slightly more than rounding.
    """
    if not head.config.window_tokens or examples.before is None:
        return None
    found = head.vocabulary.left_out(examples.before.tokens.flatten()[None])
    return found[found >= 0]


@torch.no_grad()
def _teach(examples: Examples, teacher: Tensor, temperature: float) -> Tensor:
    """Return the target's logits for the runs, from the second row on, divided by temperature.

    Returns:
        [runs, run_tokens + positions - 1, draft_vocab], in the teacher's dtype.
    """
    states = examples.hidden[:, 1:]
    logits = functional.linear(states.flatten(0, 1).to(teacher.dtype), teacher)
    return logits.div_(temperature).unflatten(0, states.shape[:2])


class _SoftCrossEntropy(torch.autograd.Function):
    """Weighted sum of the cross-entropies of rows against the softmax of other logits.

    The forward pass also computes the gradient, on CPUs a few rows at a time: a whole batch would
    not fit into the caches and be read again by each of ten operations. Nothing else is saved.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, wanted: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum, float32, and each row's log-sum-exp, [rows].

        Args:
            ctx: torch's context.
            scores: Logits of the head, [rows, vocabulary].
            wanted: Logits of the target, same shape.
            weights: Weight of each row, float32, [rows].
        """
        gradient = torch.empty_like(scores)
        normalisers = torch.empty_like(weights)
        total = weights.new_zeros(())
        at_once = _ROWS_AT_ONCE if scores.device.type == "cpu" else max(1, scores.shape[0])
        parts = (each.split(at_once) for each in (scores, wanted, weights, gradient, normalisers))
        for score, want, weight, slope, normaliser in zip(*parts, strict=True):
            shares = want.softmax(-1, dtype=torch.float32)
            logits = score.float()
            normaliser.copy_(logits.logsumexp(-1))
            logs = logits - normaliser[:, None]
            # No matrix products, which autocast would compute in bfloat16.
            total -= ((shares * logs).sum(-1) * weight).sum()
            slope.copy_(logs.exp_().sub_(shares).mul_(weight[:, None]))
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(normalisers)
        return total, normalisers

    @staticmethod
    def backward(ctx: Any, *found: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient with respect to the scores."""
        (gradient,) = ctx.saved_tensors
        return gradient * found[0].to(gradient.dtype), None, None


def weigh(sums: Sums, counts: Counts, settings: TrainSettings) -> Tensor:
    """Return some runs' share of the batch's loss; over all runs the shares add up to the loss.

    Args:
        sums: Sums of the runs.
        counts: Counts of the whole batch, on the same device.
        settings: Weights of the positions and of the soft loss.
    """
    weights = sums.hard.new_tensor(settings.position_weights or [1.0] * len(sums.hard))
    share = settings.distillation_ratio
    hard = sums.hard / counts.hard.clamp_min(1)
    soft = sums.soft / counts.soft.clamp_min(1)
    return (weights * ((1 - share) * hard + share * soft)).sum()
