"""What a head is trained to make small, and how often it is right already."""

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
"""Whose logits of some thousand tokens fit into a CPU's cache."""


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
    head: DraftHead,
    examples: Examples,
    teacher: Tensor | None,
    *,
    temperature: float = 1.0,
    learns_hard: bool = True,
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
        temperature: Of the target's distribution in the soft loss.
        learns_hard: Whether anybody wants the gradient of the hard loss.
    """
    run_tokens, positions = examples.tokens.shape[1:]
    more = _seen_beside(head, examples)
    if more is not None and teacher is not None:
        assert head.shared.output is not None
        teacher = torch.cat([teacher, head.shared.output[more].to(teacher.dtype)])
    taught = None if teacher is None else _teach(examples, teacher, temperature)
    # As plain rows: with a dimension more, torch multiplies run by run.
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
    """Return what these rows look at beside the head's vocabulary, for a head that drafts it.

    Each row of a draft has its own such tokens. In training all of some runs share them: one
    product with all of them costs less, and more wrong ones to tell from the right one do no harm.
    So the size of a micro-batch moves results by a little more than rounding.
    """
    if not head.config.window_tokens or examples.before is None:
        return None
    found = head.vocabulary.left_out(examples.before.tokens.flatten()[None])
    return found[found >= 0]


@torch.no_grad()
def _teach(examples: Examples, teacher: Tensor, temperature: float) -> Tensor:
    """Return the target's logits behind the rows of the runs, from the second row on, tempered.

    Returns:
        In the teacher's dtype, [runs, run_tokens + positions - 1, draft_vocab].
    """
    states = examples.hidden[:, 1:]
    logits = functional.linear(states.flatten(0, 1).to(teacher.dtype), teacher)
    return logits.div_(temperature).unflatten(0, states.shape[:2])


class _SoftCrossEntropy(torch.autograd.Function):
    """Weighted sum of the cross-entropies of rows against the softmax of other logits.

    The gradient is made on the way forward, on CPUs some rows at a time: tables of a whole batch
    would leave their caches at each of ten operations. Nothing else is kept for the way back.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, wanted: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return it, float32, and the logarithm of each row's sum of exponentials, [rows].

        Args:
            ctx: torch's.
            scores: Logits of the head, [rows, vocabulary].
            wanted: Logits of the target, of the same shape.
            weights: Of the rows, float32, [rows].
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
            # No products of vectors: autocast would make bfloat16 of them.
            total -= ((shares * logs).sum(-1) * weight).sum()
            slope.copy_(logs.exp_().sub_(shares).mul_(weight[:, None]))
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(normalisers)
        return total, normalisers

    @staticmethod
    def backward(ctx: Any, *found: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient of the scores."""
        (gradient,) = ctx.saved_tensors
        return gradient * found[0].to(gradient.dtype), None, None


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
