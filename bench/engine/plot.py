"""The picture of README: tokens per second of each method relative to stock vLLM, by workload."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.engine.counts import Counts
from bench.engine.methods import ARCTIC, HYBRID, VLLM
from bench.rounds import Json

_COLOURS = {HYBRID: "#b5482a"}
_NAMES = {
    VLLM: "unmodified vLLM",
    ARCTIC: "Arctic's suffix decoding, with our kernels",
    HYBRID: "specgate",
}
_OTHER = ("#9aa5b1", "#5f7a94", "#33485c")

Speeds = Mapping[str, Sequence[Counts]]
"""By method, a counts for each round."""


def plot_title(found: Json) -> str:
    """Describe what was measured, and where, from the benchmark's JSON."""
    machine = found["machine"]
    return (
        f"{found['model']}, {', '.join(found['ratios'])} client(s), {machine['cores']} cores of "
        f"{machine['cpu']}; median and range of {found['rounds']} rounds"
    )


def draw(path: Path, workloads: Mapping[str, Speeds], title: str) -> None:
    """Draw the median ratio to stock vLLM of each method, with its range over rounds.

    Args:
        path: Where to write; the suffix decides the format. Its folder must exist.
        workloads: By name; every workload has the same methods, `vllm` among them.
        title: What was measured, and on what machine.
    """
    methods = [name for name in _NAMES if all(name in speeds for speeds in workloads.values())]
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    mpl.rcParams["svg.hashsalt"] = "engine"  # the same figures give the same file
    axes = figure.subplots()
    width = 0.8 / len(methods)
    for index, method in enumerate(methods):
        at = [x + (index - (len(methods) - 1) / 2) * width for x in range(len(workloads))]
        found = [_ratios(speeds, method) for speeds in workloads.values()]
        middle = [sorted(ratios)[len(ratios) // 2] for ratios in found]
        axes.bar(
            at,
            middle,
            width * 0.94,
            label=_NAMES[method],
            color=_COLOURS.get(method, _OTHER[index % len(_OTHER)]),
            yerr=[
                [value - min(ratios) for value, ratios in zip(middle, found, strict=True)],
                [max(ratios) - value for value, ratios in zip(middle, found, strict=True)],
            ],
            error_kw={"lw": 0.8, "ecolor": "#222222"},
        )
        for x, value in zip(at, middle, strict=True):
            axes.annotate(f"{value:.1f}", (x, 0.06), ha="center", fontsize=8, color="white")
    axes.set_xticks(range(len(workloads)), [name.replace("_", "\nwith ") for name in workloads])
    axes.set_ylabel("tokens/s relative to vLLM")
    axes.set_title(title, fontsize=9, loc="left")
    axes.legend(frameon=False, fontsize=9, ncols=len(methods), loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(0.0, 1.12 * axes.get_ylim()[1])
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _ratios(speeds: Speeds, method: str) -> list[float]:
    pairs = zip(speeds[method], speeds[VLLM], strict=True)
    return [ours.tokens_per_second / theirs.tokens_per_second for ours, theirs in pairs]
