"""Whole training runs, on a target of a few kilobytes and existing text."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from torch.nn import functional

from engine.errors import HeadTargetError, TrainingError
from engine.heads import TargetFacts, load_head
from engine.training.documents import Document
from engine.training.group import Group
from engine.training.recipe import load_recipe
from engine.training.run import Corpus, Run
from engine.training.steps import Step
from engine.training.trainer import Outcome, Trainer
from tests.unit.engine.training.test_chat import TEMPLATE, write_tokenizer
from tests.unit.engine.training.tiny import HIDDEN_SIZE, VOCAB_SIZE, prepare

ALONE = Group(0, 1, torch.device("cpu"))


def test_documents_are_held_out_by_number() -> None:
    documents = [Document(number, "chat", [1], [2, 3]) for number in (120, 3, 49, 50, 99)]

    corpus = Corpus.of(documents, held_out_every=50)

    assert [document.number for document in corpus.training] == [120, 3, 50]
    assert [document.number for document in corpus.held_out] == [49, 99]


def test_your_own_documents_say_whether_they_are_held_out() -> None:
    documents = [
        Document(-1, "own", [1], [2, 3], held_out=True),
        Document(-2, "own", [1], [2, 3], held_out=False),
    ]

    corpus = Corpus.of(documents, held_out_every=50)

    assert [document.number for document in corpus.held_out] == [-1]


def carry_out(recipe: Path, until: Step = "export") -> Path:
    """Run a recipe; return the run's folder."""
    loaded = load_recipe(recipe)
    Run(loaded, group=ALONE).carry_out(until)
    return loaded.run_folder


def head_of(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "head").iterdir()}


def ratio_of(run: Path) -> float:
    figures = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    ratio: float = figures["all"]["acceptance_ratio"]
    return ratio


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete, uninterrupted run."""
    return carry_out(prepare(tmp_path_factory.mktemp("whole")))


def beside(whole: Path, folder: Path, **sections: Any) -> Path:
    """Write a recipe with the same target and text elsewhere; return it."""
    # The same path of the target, which is part of the mark.
    recipe = prepare(folder, **sections)
    text = recipe.read_text(encoding="utf-8")
    target = str(whole.parent / "target")
    recipe.write_text(text.replace(str(folder / "target"), target), encoding="utf-8")
    return recipe


MEDUSA = {"kind": "medusa", "inner_size": HIDDEN_SIZE, "tie_positions": False, "scale_input": False}
WINDOW = {"kind": "gated", "window": 6, "attention_head_size": 16}


@pytest.mark.parametrize(
    ("head", "steps", "ratio"),
    [({}, 100, 0.3), pytest.param(WINDOW, 240, 0.4, marks=pytest.mark.slow)],
    ids=["lstm", "window"],
)
def test_acceptance_rises(head: dict[str, Any], steps: int, ratio: float, tmp_path: Path) -> None:
    learns = {"steps": steps, "batch_tokens": 512, "micro_batch_tokens": 512}
    untrained = carry_out(prepare(tmp_path / "a", head=head, train={"steps": 1}))
    trained = carry_out(prepare(tmp_path / "b", head=head, train=learns))

    assert ratio_of(untrained) < 0.05
    assert ratio_of(trained) > ratio


def test_a_trained_medusa_head_drafts_what_its_weights_say(tmp_path: Path) -> None:
    learns = {"steps": 100, "batch_tokens": 512, "micro_batch_tokens": 512}
    run = carry_out(prepare(tmp_path, head=MEDUSA, train=learns))
    assert ratio_of(run) > 0.15
    weights = load_file(run / "head" / "model.safetensors")
    shards = [load_file(path) for path in sorted((run / "states").glob("held*"))]
    hidden = torch.cat([shard["hidden"] for shard in shards])[:40].float()

    head = load_head(run / "head", target_of(HIDDEN_SIZE))
    drafted, _ = head.propose(hidden, torch.zeros(len(hidden), dtype=torch.int64), 3)

    for position in range(3):
        layer, bias, output = (
            weights[name.format(position)].float()
            for name in (
                "cells.{}.layers.0.linear.weight",
                "cells.{}.layers.0.bias",
                "outputs.{}.weight",
            )
        )
        state = hidden + functional.silu(hidden @ layer.T + bias)
        said = weights["vocabulary.ids"][(state @ output.T).argmax(-1)]
        assert drafted[:, position].tolist() == said.tolist()
    assert drafted.unique().numel() > 10
    with pytest.raises(HeadTargetError, match="its hidden_size is 64, the target's 32"):
        load_head(run / "head", target_of(32))


def target_of(hidden_size: int) -> TargetFacts:
    return TargetFacts(hidden_size, VOCAB_SIZE, None, torch.float32, torch.device("cpu"))


def test_a_medusa_head_as_wide_as_no_target_is_refused(tmp_path: Path) -> None:
    recipe = prepare(tmp_path, head={**MEDUSA, "inner_size": 32})

    with pytest.raises(TrainingError, match="inner_size 32 must equal hidden_size 64"):
        carry_out(recipe, "train")


def test_training_starts_from_another_recipes_head(whole: Path, tmp_path: Path) -> None:
    recipe = beside(whole, tmp_path, train={"start_from": "first", "steps": 2})
    shutil.copytree(whole / "head", tmp_path / "first" / "head")

    run = carry_out(recipe)

    assert ratio_of(run) == pytest.approx(ratio_of(whole), abs=0.05)
    assert "continues the head of `first`" in (run / "head" / "README.md").read_text("utf-8")
    assert head_of(run) != head_of(whole)


def test_a_second_run_repeats_nothing(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = beside(whole, tmp_path)
    run = carry_out(recipe)
    before = head_of(run)
    assert (run / "acceptance.png").read_bytes().startswith(b"\x89PNG")

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("was done again")

    monkeypatch.setattr("engine.training.states.compute_shard", fail)
    monkeypatch.setattr("engine.training.run.evaluate", fail)
    monkeypatch.setattr(Trainer, "step", fail)
    carry_out(recipe)

    assert head_of(run) == before


def test_an_interrupted_run_gives_the_same_head(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = beside(whole, tmp_path)
    step = Trainer.step

    def interrupted(self: Trainer, number: int, *args: Any, **options: Any) -> Outcome:
        if number == 6:
            signal.raise_signal(signal.SIGINT)
        return step(self, number, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            carry_out(recipe)
    run = carry_out(recipe)

    assert head_of(run) == head_of(whole)
    for table in ("train.csv", "evaluate.csv"):
        assert steps_of(run / "train" / table) == steps_of(whole / "train" / table)


def steps_of(table: Path) -> list[str]:
    return [line.split(",")[0] for line in table.read_text(encoding="utf-8").splitlines()]


def test_streamed_states_give_the_same_head(whole: Path, tmp_path: Path) -> None:
    recipe = beside(whole, tmp_path, hidden={"store": False, "window_shards": 99})

    run = carry_out(recipe)

    assert not (run / "states").exists()
    weights = "model.safetensors"
    assert head_of(run)[weights] == head_of(whole)[weights]


def test_outdated_states_are_computed_again(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = beside(whole, tmp_path)
    states = carry_out(recipe, "hidden") / "states"
    first = sorted(states.glob("training-*"))[0]
    about = {"mark": "m", "lengths": "[1]", "kinds": '["odd"]'}
    save_file({"tokens": torch.zeros(1)}, first, metadata=about)
    capsys.readouterr()

    carry_out(recipe, "hidden")
    said = capsys.readouterr().err
    carry_out(recipe, "hidden")

    assert "hidden, training: 1 shards have an older format" in said
    assert "older format" not in capsys.readouterr().err
    found, expected = load_file(first), load_file(whole / "states" / first.name)
    assert torch.equal(found["hidden"], expected["hidden"])


def test_another_recipe_must_start_over(whole: Path, tmp_path: Path) -> None:
    carry_out(beside(whole, tmp_path), "train")
    other = tmp_path / "other.yaml"
    text = (tmp_path / "recipe.yaml").read_text(encoding="utf-8")
    other.write_text(text.replace("weight_decay", "").replace("steps: 24", "steps: 25"), "utf-8")

    with pytest.raises(TrainingError, match="belongs to another recipe, text or target"):
        carry_out(other)

    shutil.rmtree(tmp_path / "tiny" / "train")
    carry_out(other)


def test_a_head_learns_from_your_own_data_alone(tmp_path: Path) -> None:
    recipe, said = with_data(tmp_path, count=60)

    run = carry_out(recipe)

    found = json.loads((run / "data.json").read_text(encoding="utf-8"))
    assert (found["documents"], found["held_out"] > 0) == (60, True)
    card = (run / "head" / "README.md").read_text(encoding="utf-8")
    assert "(`own.jsonl`), as they stand there" in card
    assert "- own.jsonl" in card
    assert str(tmp_path / "own.jsonl") not in card
    assert said not in card


def test_data_that_changed_does_not_continue_a_run(tmp_path: Path) -> None:
    recipe, _ = with_data(tmp_path, count=60)
    carry_out(recipe, until="text")
    carry_out(recipe, until="text")  # the same data goes on

    with_data(tmp_path, count=61)

    with pytest.raises(TrainingError, match=r"not what .* began with"):
        carry_out(recipe, until="text")


def with_data(folder: Path, *, count: int) -> tuple[Path, str]:
    """Write a target with a chat template, and a recipe that learns from conversations alone.

    Returns:
        The recipe, and a word that all conversations have.
    """
    if (folder / "tiny").exists():
        recipe = folder / "recipe.yaml"
    else:
        recipe = prepare(folder, documents=0, vocabulary=258)  # a token for each byte, and two
        (folder / "tiny" / "text.jsonl").unlink()
    write_tokenizer(folder / "target", TEMPLATE)
    conversations = (
        {"prompt": f"{at}? rhubarb", "completion": "one two three four five six"}
        for at in range(count)
    )
    (folder / "own.jsonl").write_text("\n".join(map(json.dumps, conversations)), encoding="utf-8")
    document = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    document["data"] = {"files": ["own.jsonl"]}
    document["text"] = {"held_out_every": 5}
    document["head"]["draft_vocab_size"] = 64
    recipe.write_text(yaml.safe_dump(document), encoding="utf-8")
    return recipe, "rhubarb"
