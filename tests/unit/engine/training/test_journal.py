from pathlib import Path

import torch

from engine.training.group import Group
from engine.training.journal import Journal, append
from engine.training.loss import Counts, Sums
from engine.training.recipe import TrainSettings
from engine.training.trainer import Outcome

SETTINGS = TrainSettings(steps=10, log_every_steps=2, evaluate_every_steps=5)
ALONE = Group(0, 1, torch.device("cpu"))


def outcome() -> Outcome:
    eight, four = torch.tensor([8.0, 4.0]), torch.tensor([4.0, 4.0])
    return Outcome(
        Sums(eight, torch.zeros(2), torch.tensor([2.0, 1.0])), Counts(four, four, four), False
    )


def test_lines_are_written_periodically_and_at_the_end(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"steps": 5})

    with Journal(tmp_path, settings, group=ALONE, done=0) as journal:
        for step in range(1, 6):
            journal.note(step, outcome())

    head, *lines = (tmp_path / "train.csv").read_text(encoding="utf-8").splitlines()
    assert head == (
        "step,loss,learning_rate,positions_per_second,cross_entropy_1,hit_ratio_1,"
        "cross_entropy_2,hit_ratio_2"
    )
    cells = [line.split(",") for line in lines]
    assert [(one[0], one[1], *one[4:]) for one in cells] == [
        (step, "3", "2", "0.5", "1", "0.25") for step in ("2", "4", "5")
    ]


def test_steps_to_be_repeated_are_dropped(tmp_path: Path) -> None:
    for step in (2, 4, 6):
        append(step, {"loss": 1.0, "x": 2.0}, tmp_path / "train.csv")
    with (tmp_path / "train.csv").open("a", encoding="utf-8") as file:
        file.write("8,1")  # cut off by a kill

    with Journal(tmp_path, SETTINGS, group=ALONE, done=4):
        pass

    text = (tmp_path / "train.csv").read_text(encoding="utf-8")
    assert text == "step,loss,x\n2,1,2\n4,1,2\n"
