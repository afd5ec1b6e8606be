"""The picture of docs/gate.md: measured goodput against concurrency."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.engine.methods import NONE
from bench.gate.settings import GATE

Speeds = Mapping[int, Mapping[str, float]]
"""By concurrency and setting, tokens a second."""
_COLOURS = {NONE: "#444444", GATE: "#b5482a"}


def draw(path: Path, workloads: Mapping[str, Speeds]) -> None:
    """Write the picture; the file's name says of which format.

    Args:
        path: Its folder must be there.
        workloads: By name; at least one, and every concurrency has all settings.
    """
    figure = Figure(figsize=(4.5 * len(workloads), 6.5), layout="constrained")
    mpl.rcParams["svg.hashsalt"] = "gate"  # the same picture for the same figures
    axes = figure.subplots(2, len(workloads), sharex=True, squeeze=False)
    for column, (workload, speeds) in enumerate(workloads.items()):
        goodput, ratio = axes[:, column]
        _lines(goodput, speeds, dict.fromkeys(speeds, 1.0))
        _lines(ratio, speeds, {clients: found[NONE] for clients, found in speeds.items()})
        goodput.set_title(workload)
        goodput.set_yscale("log")
        ratio.set_ylim(0.0, None)
        ratio.set_xscale("log", base=2)
        ratio.set_xticks(sorted(speeds), [str(clients) for clients in sorted(speeds)])
        ratio.set_xlabel("requests at once")
    axes[0, 0].set_ylabel("tokens a second")
    axes[1, 0].set_ylabel("over no drafts")
    axes[0, -1].legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _lines(axes: Axes, speeds: Speeds, units: Mapping[int, float]) -> None:
    """A line for each setting; the fixed ones thin, from light (short) to dark (long)."""
    clients = sorted(speeds)
    names = list(speeds[clients[0]])
    fixed = [name for name in names if name not in _COLOURS]
    for name in sorted(names, key=lambda name: name in _COLOURS):
        shade = 0.85 - 0.6 * fixed.index(name) / len(fixed) if name in fixed else 0.0
        axes.plot(
            clients,
            [speeds[each][name] / units[each] for each in clients],
            label=name,
            color=_COLOURS.get(name, (shade, shade, 0.9)),
            lw=2.2 if name == GATE else 1.1,
            marker="o" if name == GATE else None,
            ls="--" if name == NONE else "-",
        )
    axes.grid(alpha=0.25)
