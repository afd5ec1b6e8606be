"""A recipe for one of vLLM's own drafters, and text for it."""

from pathlib import Path
from typing import Any

import yaml

from tests.unit.engine.training.tiny import RECIPE, write_target, write_text


def native(**sections: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe's content; `sections` are added to its own."""
    document: dict[str, Any] = {
        **{name: RECIPE[name] for name in ("name", "seed", "engine", "text")},
        "head": {"kind": "eagle3", "layers": [0, 1, 2], "draft_vocab_size": 64},
        "train": {"epochs": 2, "sequence_tokens": 64},
    }
    return document | {name: {**document.get(name, {}), **new} for name, new in sections.items()}


def prepare_native(folder: Path, **sections: dict[str, Any]) -> Path:
    """Write a recipe, its target and its text; return the recipe's path."""
    target = write_target(folder / "target")
    run = folder / "tiny"
    run.mkdir()
    write_text(run / "text.jsonl", documents=60)
    document = native(**sections)
    engine = {**document["engine"], "model": str(target)}
    path = folder / "native.yaml"
    text = yaml.safe_dump({**document, "folder": str(folder), "engine": engine})
    path.write_text(text, encoding="utf-8")
    return path
