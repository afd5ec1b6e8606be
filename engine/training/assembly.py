"""Step 3, before its first step: the head and what it is trained with, as a recipe says."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import HeadError, TrainingError
from engine.heads import IGNORED, DraftHead, HeadConfig
from engine.training.documents import Document
from engine.training.examples import Cutter
from engine.training.group import Group
from engine.training.recipe import Recipe
from engine.training.target import Target, tokenizer_sha256
from engine.training.trainer import Trainer
from engine.training.vocabulary import choose_vocabulary

# What a recipe may change in the middle of a run: it moves results by rounding at most.
_FREE = {
    "checkpoint_every_s",
    "checkpoint_every_steps",
    "evaluate_every_steps",
    "evaluate_tokens",
    "log_every_steps",
    "micro_batch_tokens",
}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a head can draft.

    Attributes:
        ids: Target ids, rising; None for all.
        coverage_ratio: The share of the answer tokens to train on that they are.
    """

    ids: list[int] | None
    coverage_ratio: float

    @classmethod
    def of(
        cls, documents: Sequence[Document], size: int | None, *, vocab_size: int
    ) -> "Vocabulary":
        """Choose it.

        Args:
            documents: Those to train on.
            size: The recipe's `draft_vocab_size`.
            vocab_size: Of the target.
        """
        if size is None or size >= vocab_size:
            return cls(None, 1.0)
        return cls(*choose_vocabulary(documents, size=size, vocab_size=vocab_size))


def build_head(recipe: Recipe, target: Target, vocabulary: Vocabulary, *, source: str) -> DraftHead:
    """Return the head of a recipe with its first weights, on the target's device.

    Args:
        recipe: The recipe.
        target: Its model.
        vocabulary: What the head can draft.
        source: Where the model lies, for its tokenizer.

    Raises:
        TrainingError: The recipe's shape is impossible.
    """
    ids = vocabulary.ids
    facts = {
        "hidden_size": target.hidden_size,
        "vocab_size": target.vocab_size,
        "draft_vocab_size": None if ids is None else len(ids),
        "tokenizer_sha256": tokenizer_sha256(source),
    }
    try:
        config = HeadConfig.model_validate({**dict(recipe.head), **facts})
        head = DraftHead.new(
            config,
            ids,
            embedding=target.embedding if config.share_embedding else None,
            output=target.output if config.share_output else None,
            seed=recipe.seed,
        )
    except (ValueError, HeadError) as exc:
        raise TrainingError(f"head: {exc}") from exc
    head.to(target.device)
    head.train()
    return head


def build_trainer(
    recipe: Recipe, head: DraftHead, target: Target, vocabulary: Vocabulary, *, group: Group
) -> Trainer:
    """Return the trainer of a head that `build_head` made."""
    settings, ids = recipe.train, vocabulary.ids
    draft_of = torch.arange(target.vocab_size)
    teacher: Tensor | None = None
    if ids is not None:
        draft_of = torch.full((target.vocab_size,), IGNORED)
        draft_of[ids] = torch.arange(len(ids))
    if settings.distillation_ratio:
        teacher = target.output if ids is None else target.output[ids]
    cutter = Cutter(
        draft_of,
        run_tokens=settings.run_tokens,
        positions=recipe.head.positions,
        window=recipe.head.window,
        prompt_weight=settings.prompt_weight,
    )
    return Trainer(head, cutter, settings, teacher=teacher, group=group)


def mark_of(recipe: Recipe, documents: Sequence[Document]) -> str:
    """Return a digest of everything that decides what a head becomes."""
    hidden, engine = recipe.hidden, recipe.engine
    decides = {
        "seed": recipe.seed,
        # Without defaults: a later version may know more fields.
        "head": recipe.head.model_dump(mode="json", exclude_defaults=True),
        "train": recipe.train.model_dump(mode="json", exclude_defaults=True, exclude=_FREE),
        "shards": [hidden.shard_tokens, None if hidden.store else hidden.window_shards],
        "prompt_rows": recipe.prompt_rows,
        "target": [engine.model, engine.vllm.get("dtype")],
    }
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode())
    for document in documents:
        digest.update(repr((document.number, *document.prompt, *document.answer)).encode())
    return digest.hexdigest()
