"""The picture of docs/pacing.md: one recorded stream raw, smooth and private."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bench.client import Exchange
from bench.pacing.figures import Played, Values

_COLOURS = {"raw": "#b5482a", "smooth": "#2a6fb5", "private": "#3d8a4e"}
_SECONDS = 3.0
_LEAST_SECONDS = 2.0
_STALL_MS = 250.0  # a pause that no pacing within its bound can fill
Shown = Mapping[str, tuple[Played, Exchange]]
"""By the name in the picture, the same pattern as text and as packets."""


def draw(path: Path, shown: Shown) -> None:
    """Write the picture; the file's name says of which format.

    Args:
        path: Its folder must be there.
        shown: At least one; all of one pattern.
    """
    figure = Figure(figsize=(9, 6), layout="constrained")
    mpl.rcParams["svg.hashsalt"] = "pacing"  # the same picture for the same figures
    text, lanes = figure.subplots(2, 1, height_ratios=(3, 2), sharex=True)
    begins = {name: int(played.sent_ns[0]) for name, (played, _) in shown.items()}
    for name, (played, _) in shown.items():
        seconds = (played.piece_ns - begins[name]) / 1e9
        colour = _COLOURS.get(name)
        text.step(seconds, played.piece_ends, where="post", label=name, color=colour, lw=1.4)
    text.set_ylabel("characters at the client")
    text.set_xlim(0, _SECONDS)
    characters = [
        int(played.piece_ends[(played.piece_ns - begins[name]) <= _SECONDS * 1e9][-1])
        for name, (played, _) in shown.items()
    ]
    text.set_ylim(0, 1.08 * max(characters))
    text.legend(loc="upper left", frameon=False)
    text.grid(alpha=0.25)
    pattern = next(iter(shown.values()))[0].pattern
    text.set_title(f"One answer of the hybrid worker ({pattern.kind}), as a client gets it")
    sizes = {name: _sizes(capture) for name, (_, capture) in shown.items()}
    least = min(each.min() for each in sizes.values())
    most = max(each.max() for each in sizes.values())
    for lane, (name, (_, capture)) in enumerate(shown.items()):
        seconds = np.array([(at_ns - begins[name]) / 1e9 for at_ns, _ in capture.packets])
        heights = 0.15 + 0.7 * (sizes[name] - least) / max(1.0, most - least)
        lanes.vlines(seconds, -lane, -lane + heights, color=_COLOURS.get(name), lw=1.1)
    lanes.set_yticks([-lane for lane in range(len(shown))], list(shown))
    lanes.set_xlabel("seconds after the worker's first token")
    lanes.set_title("Each packet: when it came, and how long it was", fontsize=10)
    lanes.set_ylim(-len(shown) + 0.9, 1)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def most_uneven(streams: Sequence[Played]) -> Played:
    """The stream whose worker's gaps vary most, of long ones that never stall, if there are any.

    Args:
        streams: At least one.
    """
    flowing = [
        each
        for each in streams
        if each.seconds >= _LEAST_SECONDS and each.worker_gaps().ms.max(initial=0.0) <= _STALL_MS
    ]
    return max(flowing or streams, key=lambda each: each.worker_gaps().variation("token") or 0.0)


def _sizes(capture: Exchange) -> Values:
    # The first packet has the head of the answer, which would dwarf all others.
    sizes: Values = np.array([float(len(data)) for _, data in capture.packets])
    sizes[0] = min(sizes[0], sizes[1:].max(initial=0.0))
    return sizes
