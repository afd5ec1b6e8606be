"""Plots acceptance by position."""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from engine.training.evaluation import Evaluation


def plot_acceptance(evaluation: Evaluation, path: Path, *, title: str) -> None:
    """Write a PNG with the share of drafts accepted up to each position.

    Args:
        evaluation: One curve for each kind of prompt, and one for all.
        path: Path of the file.
        title: What was evaluated.
    """
    # Not pyplot, which keeps figures and needs a display.
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for kind, found in sorted(evaluation.kinds.items()):
        survival = found.by_position
        axes.plot(range(1, len(survival) + 1), survival, marker="o", linewidth=1, label=kind)
    survival = evaluation.total.by_position
    axes.plot(range(1, len(survival) + 1), survival, "k-o", linewidth=2.5, label="all")
    axes.set(
        title=f"{title}: {evaluation.total.length:.2f} tokens per step",
        xlabel="position in the draft",
        ylabel="accepted up to here",
        ylim=(0, 1),
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120, metadata={"Software": None})
