"""The model card of a drafter that the library has trained."""

from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import JsonValue

from engine.training.native.recipe import NativeRecipe


def write_card(recipe: NativeRecipe, figures: Mapping[str, JsonValue], *, licence: str) -> str:
    """Return the model card: Markdown with the front matter that model hubs read.

    Args:
        recipe: The recipe.
        figures: The library's, for the held-out text.
        licence: The target's, which the drafter inherits: it is trained on the target's text.
    """
    head, train = recipe.head, recipe.train
    front = {
        "license": licence.lower(),
        "library_name": "speculators",
        "tags": ["speculative-decoding", head.kind],
    }
    native = {"config": head.drafter(Path("FOLDER"))}
    profile = {"engine": {"speculation": {"sources": ["suffix", "native"], "native": native}}}
    drafted = head.draft_vocab_size or "all"
    written = "text that the target wrote"
    if recipe.data is not None:
        written = f"{', '.join(f'`{path.name}`' for path in recipe.data.files)} and {written}"
    return "\n".join(
        [
            "---",
            yaml.safe_dump(front).rstrip(),
            "---",
            "",
            f"# {recipe.name}",
            "",
            f"A drafter for {recipe.engine.model}: {head.kind}, {head.positions} positions, "
            f"{drafted} tokens. Trained with `speculators` for {train.epochs} epochs on {written}; "
            f"licence of the target: {licence}.",
            "",
            "To serve it:",
            "",
            "```yaml",
            yaml.safe_dump(profile, sort_keys=False).rstrip(),
            "```",
            "",
            "On held-out text, as the library measures it:",
            "",
            *(f"- {name}: {value}" for name, value in sorted(figures.items())),
            "",
        ]
    )
