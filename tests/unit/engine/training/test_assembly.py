from pathlib import Path
from typing import Any

import pytest
import torch

from engine.config import EngineSettings
from engine.heads import save_head
from engine.training.assembly import (
    Vocabulary,
    build_head,
    load_first_head,
    mark_of,
)
from engine.training.recipe import Recipe
from engine.training.target import Target, load_target
from tests.unit.engine.training.tiny import HIDDEN_SIZE, RECIPE, VOCAB_SIZE, speak, write_target

CPU = torch.device("cpu")
DOCUMENTS = [speak(number) for number in range(4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def target(folder: Path) -> Target:
    return load_target(str(folder), EngineSettings(vllm={"dtype": "float32"}), device=CPU)


def recipe(**sections: dict[str, Any]) -> Recipe:
    document: dict[str, Any] = {**RECIPE}
    for name, changes in sections.items():
        document[name] = {**document[name], **changes}
    return Recipe.model_validate(document)


def vocabulary(size: int | None) -> Vocabulary:
    return Vocabulary.of(DOCUMENTS, size, vocab_size=VOCAB_SIZE)


def test_a_head_takes_its_sizes_from_the_target(folder: Path, target: Target) -> None:
    head = build_head(recipe(), target, vocabulary(20), source=str(folder))

    assert (head.config.hidden_size, head.config.vocab_size) == (HIDDEN_SIZE, VOCAB_SIZE)
    assert (head.config.output_size, head.config.inner_size) == (20, 32)
    assert head.config.tokenizer_sha256 is not None
    assert head.training


def saved_head(target: Target, folder: Path, **shape: Any) -> Path:
    """Save a head with other weights and another vocabulary than a new one has."""
    head = build_head(
        recipe(head=shape).model_copy(update={"seed": 9}),
        target,
        Vocabulary([*range(0, 60, 3)], 0.5),
        source=str(folder),
    )
    save_head(head, folder / "head", card={})
    return folder / "head"


def test_training_starts_from_a_head(folder: Path, target: Target, tmp_path: Path) -> None:
    first = load_first_head(saved_head(target, tmp_path), target, source=str(tmp_path))
    chosen = Vocabulary.of_head(DOCUMENTS, first)

    head = build_head(recipe(), target, chosen, source=str(folder), first=first)

    assert chosen.ids == [*range(0, 60, 3)]
    answers = [token for document in DOCUMENTS for token in document.answer]
    expected = sum(token in chosen.ids for token in answers) / len(answers)
    assert chosen.coverage_ratio == pytest.approx(expected)
    for name, tensor in first.weights.state_dict().items():
        assert torch.equal(head.weights.state_dict()[name], tensor)
    assert head.training
    assert all(parameter.requires_grad for parameter in head.parameters())


def test_the_mark_depends_on_the_first_head(target: Target, tmp_path: Path) -> None:
    first = load_first_head(saved_head(target, tmp_path), target, source=str(tmp_path))
    before = mark_of(recipe(), DOCUMENTS, first)

    with torch.no_grad():
        next(first.parameters())[0] += 1

    assert len({before, mark_of(recipe(), DOCUMENTS), mark_of(recipe(), DOCUMENTS, first)}) == 3


def test_the_mark_depends_on_everything_that_determines_a_head() -> None:
    changes: list[dict[str, dict[str, Any]]] = [
        {"head": {"inner_size": 33}},
        {"train": {"learning_rate": 0.5}},
        {"engine": {"model": "other"}},
        {"engine": {"vllm": {"dtype": "half"}}},
        {"hidden": {"shard_tokens": 9}},
        {"hidden": {"store": False}},
        {"hidden": {"max_prompt_tokens": 5}},
        {"train": {"prompt_weight": 0.25}},
        {"train": {"distillation_temperature": 0.5}},
    ]

    marks = [mark_of(recipe(**change), DOCUMENTS) for change in changes]
    marks += [mark_of(recipe(), DOCUMENTS), mark_of(recipe(), DOCUMENTS[:3])]

    assert len(set(marks)) == len(changes) + 2


def test_the_mark_ignores_what_may_change_in_mid_run() -> None:
    changed = recipe(
        train={"micro_batch_tokens": 8, "checkpoint_every_s": 1, "log_every_steps": 1},
        hidden={"batch_tokens": 9},
        text={"tokens": 5},
    )

    assert mark_of(changed, DOCUMENTS) == mark_of(recipe(), DOCUMENTS)
