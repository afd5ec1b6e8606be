"""Step 3, setup: builds the head and its trainer from a recipe."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import HeadError, TrainingError
from engine.heads import IGNORED, DraftHead, HeadConfig, TargetFacts, load_head
from engine.training.documents import Document
from engine.training.examples import Cutter
from engine.training.group import Group
from engine.training.recipe import Recipe
from engine.training.target import Target, tokenizer_sha256
from engine.training.trainer import Trainer
from engine.training.vocabulary import choose_vocabulary, coverage_of

# What a recipe may change in mid-run: it affects results by rounding or hardly at all.
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
    """The tokens that a head can draft.

    Attributes:
        ids: Target ids, rising; None for all.
        coverage_ratio: Their share of the training answers' tokens.
    """

    ids: list[int] | None
    coverage_ratio: float

    @classmethod
    def of(
        cls, documents: Sequence[Document], size: int | None, *, vocab_size: int
    ) -> "Vocabulary":
        """Choose a vocabulary.

        Args:
            documents: The documents to train on.
            size: The recipe's `draft_vocab_size`.
            vocab_size: Vocabulary size of the target.
        """
        if size is None or size >= vocab_size:
            return cls(None, 1.0)
        return cls(*choose_vocabulary(documents, size=size, vocab_size=vocab_size))

    @classmethod
    def of_head(cls, documents: Sequence[Document], head: DraftHead) -> "Vocabulary":
        """Take the vocabulary of a head."""
        ids = head.vocabulary.ids
        if ids is None:
            return cls(None, 1.0)
        known: list[int] = ids.tolist()
        return cls(known, coverage_of(documents, known))


def load_first_head(folder: Path, target: Target, *, source: str) -> DraftHead:
    """Load the head that training starts from, in float32, on the target's device.

    Args:
        folder: Folder of the head.
        target: The model that both heads draft for.
        source: Folder of that model, for its tokenizer.

    Raises:
        TrainingError: It is missing, or not a head for this target.
    """
    facts = TargetFacts(
        hidden_size=target.hidden_size,
        vocab_size=target.vocab_size,
        tokenizer_sha256=tokenizer_sha256(source),
        dtype=torch.float32,
        device=target.device,
    )
    try:
        return load_head(folder, facts, embedding=target.embedding, output=target.output)
    except HeadError as exc:
        raise TrainingError(f"train.start_from: run that recipe first: {exc}") from exc


def build_head(
    recipe: Recipe,
    target: Target,
    vocabulary: Vocabulary,
    *,
    source: str,
    first: DraftHead | None = None,
) -> DraftHead:
    """Return the untrained head of a recipe, on the target's device.

    Args:
        recipe: The recipe.
        target: The recipe's model.
        vocabulary: The tokens that the head can draft.
        source: Folder of the model, for its tokenizer.
        first: A head with the same vocabulary whose weights it takes; None for random weights.

    Raises:
        TrainingError: The recipe's shape is invalid, or differs from that of `first`.
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
    if first is not None:
        _take_weights(head, first)
    head.to(target.device)
    head.train()
    return head


def _take_weights(head: DraftHead, first: DraftHead) -> None:
    ours, theirs = (each.weights.state_dict() for each in (head, first))
    shapes = [{name: tensor.shape for name, tensor in each.items()} for each in (ours, theirs)]
    if shapes[0] != shapes[1]:
        differ = sorted({name for name, _ in shapes[0].items() ^ shapes[1].items()})
        raise TrainingError(
            f"train.start_from: that head has another shape; these weights differ: {differ}"
        )
    head.weights.load_state_dict(theirs)


def build_trainer(
    recipe: Recipe, head: DraftHead, target: Target, vocabulary: Vocabulary, *, group: Group
) -> Trainer:
    """Return the trainer of a head made by `build_head`."""
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


def mark_of(recipe: Recipe, documents: Sequence[Document], first: DraftHead | None = None) -> str:
    """Return a digest of everything that determines the trained head."""
    hidden, engine = recipe.hidden, recipe.engine
    decides = {
        "seed": recipe.seed,
        # Without defaults, since a later version may add fields.
        "head": recipe.head.model_dump(mode="json", exclude_defaults=True),
        "train": recipe.train.model_dump(mode="json", exclude_defaults=True, exclude=_FREE),
        "shards": [hidden.shard_tokens, None if hidden.store else hidden.window_shards],
        "prompt_rows": recipe.prompt_rows,
        "target": [engine.model, engine.vllm.get("dtype")],
    }
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode())
    if first is not None:
        for tensor in first.state_dict().values():
            digest.update(tensor.cpu().numpy().tobytes())
    for document in documents:
        digest.update(repr((document.number, *document.prompt, *document.answer)).encode())
    return digest.hexdigest()
