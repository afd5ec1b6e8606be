from pathlib import Path

import numpy as np

from engine.training.evaluation import Evaluation
from engine.training.plot import plot_acceptance
from engine.training.replay import Acceptance

PNG = b"\x89PNG\r\n\x1a\n"


def evaluation(accepted: int) -> Evaluation:
    found = Acceptance(np.array([10, 10]), np.array([accepted, 1]))
    return Evaluation({"chat": found, "code": found}, tokens=20)


def test_a_plot_is_a_png_and_the_same_figures_give_the_same_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.png", "b.png", "c.png")]

    for path, accepted in zip(paths, (5, 5, 9), strict=True):
        plot_acceptance(evaluation(accepted), path, title="tiny")

    first, same, other = (path.read_bytes() for path in paths)
    assert first.startswith(PNG)
    assert first == same
    assert first != other
