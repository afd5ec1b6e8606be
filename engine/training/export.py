"""Step 5: writes the head's files and its model card."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import JsonValue

from engine.errors import HeadError, TrainingError
from engine.heads import DraftHead, save_head
from engine.models import CATALOGUE
from engine.training.recipe import Recipe, RecipeBase

_UNKNOWN_LICENCE = "that of the target"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a model card states beyond the recipe.

    Attributes:
        figures: Result of the evaluation, from `Evaluation.as_json`.
        training_tokens: Answer tokens that the head was trained on.
        data_tokens: Those of them that are from the user's own data, not written by the target.
        earlier_tokens: Answer tokens that the head it started from was trained on.
        coverage_ratio: Share of the training tokens that it can draft.
        mark: Digest of recipe and text.
    """

    figures: Mapping[str, JsonValue]
    training_tokens: int
    earlier_tokens: int
    coverage_ratio: float
    mark: str
    data_tokens: int = 0


def export_head(head: DraftHead, recipe: Recipe, facts: Facts, folder: Path) -> None:
    """Write config.json, model.safetensors and README.md.

    Raises:
        TrainingError: The head is too large, a weight is not finite, or the disk write failed.
    """
    _check_size(head, recipe.export.most_mb)
    head = _with_window(head, recipe.export.window)
    licence = licence_of(recipe)
    card: dict[str, JsonValue] = {
        "recipe": recipe.name,
        "target": recipe.engine.model,
        "licence": licence,
        "seed": recipe.seed,
        "steps": recipe.train.steps,
        "training_tokens": facts.training_tokens + facts.earlier_tokens,
        "coverage_ratio": round(facts.coverage_ratio, 4),
        "evaluation": dict(facts.figures),
        "mark": facts.mark,
    }
    try:
        save_head(head, folder, card=card)
        (folder / "README.md").write_text(write_card(recipe, facts, head), encoding="utf-8")
    except (HeadError, OSError) as exc:
        raise TrainingError(f"{folder}: the head cannot be saved: {exc}") from exc


def _say_text(recipe: Recipe, facts: Facts) -> list[str]:
    total, given = facts.training_tokens, facts.data_tokens
    if recipe.data is None:
        return [
            "The target itself wrote all of the text, prompts and answers:",
            f"{total:,} answer tokens.",
        ]
    files = ", ".join(f"`{path.name}`" for path in recipe.data.files)
    return [
        f"Of {total:,} answer tokens {given:,} are from data of the one who trained it",
        f"({files}), as they stand there; the target wrote the others.",
    ]


def _say_start(recipe: Recipe, facts: Facts) -> list[str]:
    first = recipe.train.start_from
    if first is None:
        return []
    return [
        f"It continues the head of `{first}`, which was trained on {facts.earlier_tokens:,} tokens."
    ]


def _with_window(head: DraftHead, window: int | None) -> DraftHead:
    """Return the head with another window; no weight depends on its size."""
    if window is None:
        return head
    if not head.config.window:
        raise TrainingError("export.window: the head has no window")
    config = head.config.model_copy(update={"window": window})
    return DraftHead(config, head.weights, head.vocabulary, head.shared)


def licence_of(recipe: RecipeBase) -> str:
    """Return the target's licence, which the head inherits: it is trained on the target's text."""
    if recipe.export.licence is not None:
        return recipe.export.licence
    known = CATALOGUE.get(recipe.engine.model)
    return known.licence if known is not None else _UNKNOWN_LICENCE


def write_card(recipe: Recipe, facts: Facts, head: DraftHead) -> str:
    """Return the model card: Markdown with the front matter that model hubs read."""
    model, config = recipe.engine.model, head.config
    front = yaml.safe_dump(
        {
            "license": licence_of(recipe).lower(),
            "library_name": "specgate",
            "tags": ["speculative-decoding", "draft-head"],
        }
    )
    shape = [
        f"- kind: {config.kind}, {config.positions} positions, inner size {config.inner_size}",
        f"- drafts {config.output_size} of {config.vocab_size} tokens, "
        f"{facts.coverage_ratio:.1%} of the text that it was trained on",
        f"- parameters: {sum(p.numel() for p in head.parameters()):,}, stored in bfloat16",
    ]
    if config.window:
        shape.append(f"- window: {config.window} text positions, {recipe.head.window} in training")
    if config.window_tokens:
        shape.append("- also drafts the tokens in its window that its vocabulary lacks")
    *first_lines, last_line = _say_text(recipe, facts)
    shares = {"input embeddings": config.share_embedding, "output rows": config.share_output}
    shape += [f"- reads the target's {table}" for table, is_shared in shares.items() if is_shared]
    return "\n".join(
        [
            "---",
            front.rstrip(),
            "---",
            "",
            f"# {recipe.name}",
            "",
            f"A draft head for `{model}`: it drafts from the target's last hidden state, without a",
            "KV cache. The served text is the target's own, only generated faster.",
            "",
            *shape,
            f"- tokenizer.json of the target: sha256 `{config.tokenizer_sha256 or 'unknown'}`",
            f"- licence of the target: {licence_of(recipe)}",
            "",
            "## Training",
            "",
            *first_lines,
            f"{last_line} {recipe.train.steps} steps of",
            f"{recipe.train.batch_tokens} positions, seed {recipe.seed}.",
            *_say_start(recipe, facts),
            f"Digest of recipe and text: `{facts.mark}`.",
            "",
            "## Acceptance",
            "",
            "Measured on held-out text of the same kinds by replaying the acceptance rule.",
            "Survival is the share of drafts that are accepted up to a position.",
            "",
            *_tabulate(facts.figures, config.positions),
            "",
            "## Recipe",
            "",
            "```yaml",
            yaml.safe_dump(recipe.card(), sort_keys=False, allow_unicode=True).rstrip(),
            "```",
            "",
        ]
    )


def _tabulate(figures: Mapping[str, JsonValue], positions: int) -> list[str]:
    kinds = figures["kinds"]
    assert isinstance(kinds, dict)
    survival = "".join(f" survival {position} |" for position in range(1, positions + 1))
    lines = [
        f"| prompts | acceptance ratio | tokens per step |{survival}",
        "|---|" + "---|" * (positions + 2),
    ]
    for kind, found in [*kinds.items(), ("all", figures["all"])]:
        assert isinstance(found, dict)
        shares = found["survival"]
        assert isinstance(shares, list)
        ratio, length = found["acceptance_ratio"], found["acceptance_length"]
        cells = "".join(f" {share:.3f} |" for share in shares)
        lines.append(f"| {kind} | {ratio:.3f} | {length:.2f} |{cells}")
    return lines


def _check_size(head: DraftHead, most_mb: float | None) -> None:
    # bfloat16 weights, and four bytes per id of a truncated vocabulary.
    ids = head.vocabulary.ids
    size_bytes = 2 * sum(p.numel() for p in head.parameters())
    size_bytes += 0 if ids is None else 4 * len(ids)
    if most_mb is not None and size_bytes > most_mb * 1e6:
        raise TrainingError(
            f"the head would take {size_bytes / 1e6:.1f} MB, but export.most_mb is {most_mb:g}: "
            "reduce head.inner_size or head.draft_vocab_size"
        )
