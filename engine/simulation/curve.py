"""What a step and a pass of the head take on a machine: measured or from a file, looked up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from engine.simulation.arrays import Floats, Ints

MOST_SEQUENCES = 256
MOST_TOKENS = 12_288
"""A full step: 256 sequences with drafts of 32, and prompts."""

_PROFILED_TOKENS = (1, *(size for n in range(10) for size in (2 << n, 3 << n)))
_PROFILED_DRAFT = 4

Points = Sequence[tuple[int, float]]


class CurveError(Exception):
    """A file is no curve; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Times of one machine with one model, in seconds.

    Attributes:
        name: Of its file.
        step: Of a step by sequences and tokens, without context;
            (MOST_SEQUENCES + 1, MOST_TOKENS + 1).
        context_seconds: What a token of context adds that a sequence attends to.
        head: A pass of the draft head by sequences; (MOST_SEQUENCES + 1,).
        verify: What a step adds that verifies any draft, by sequences; (MOST_SEQUENCES + 1,).
        edges: Sizes in tokens that steps are padded to, rising: up to the next of them a further
            token costs nothing. Empty where cost is smooth.
    """

    name: str
    step: Floats
    context_seconds: float
    head: Floats
    verify: Floats
    edges: tuple[int, ...] = ()

    def seconds(self, sequences: Ints, tokens: Ints, context: Ints) -> Floats:
        """Return the times of steps that verify nothing; all arrays have one shape.

        Args:
            sequences: Requests that a step computes.
            tokens: Tokens that it computes, prompts and drafts included; at least `sequences`.
            context: Tokens that its sequences attend to, added up.
        """
        return self.step[sequences, tokens] + self.context_seconds * context

    def profile(self) -> list[tuple[int, float]]:
        """Return (tokens, seconds) as a start-up profile measures them: drafts of three tokens."""
        # One size more: behind the last edge vLLM runs steps without graphs.
        at = np.unique([*_PROFILED_TOKENS, *(edge + 1 for edge in self.edges[-1:])])
        sequences = np.clip(at // _PROFILED_DRAFT, 1, MOST_SEQUENCES)
        # A start-up profile is not allowed to fall, whatever was measured.
        seconds = np.maximum.accumulate(self.step[sequences, at])
        return [(int(tokens), float(time)) for tokens, time in zip(at, seconds, strict=True)]

    def head_profile(self) -> list[tuple[int, float]]:
        """Return (sequences, seconds) of a pass of the head, as the start-up profile does."""
        return [
            (sequences, float(self.head[sequences])) for sequences in (1, 4, 16, 64, MOST_SEQUENCES)
        ]


def load_curve(path: Path) -> Curve:
    """Read a curve.

    Raises:
        CurveError: The file is not as those of `bench/gate_sim/curves`.
    """
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
        by_sequences = {
            int(sequences): _checked(points) for sequences, points in found["step_ms"].items()
        }
        head = _checked(found["head_ms"])
        verify = _checked(found.get("verify_ms", [[1, 0.0]]))
        context_us = float(found["context_us"])
        edges = _edges(found.get("edges", []))
    except (KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise CurveError(f"{path.name}: {error!r}") from error
    return build_curve(
        path.stem,
        step_ms=by_sequences,
        head_ms=head,
        verify_ms=verify,
        context_us=context_us,
        edges=edges,
    )


def build_curve(
    name: str,
    *,
    step_ms: Mapping[int, Points],
    head_ms: Points,
    verify_ms: Points = ((1, 0.0),),
    context_us: float = 0.0,
    edges: tuple[int, ...] = (),
) -> Curve:
    """Make a curve from what was measured.

    Args:
        name: Of the machine.
        step_ms: (tokens, milliseconds) of steps without context, by sequences.
        head_ms: (sequences, milliseconds) of a pass of the head.
        verify_ms: (sequences, milliseconds) that verifying any draft adds.
        context_us: What a token of context adds, in microseconds.
        edges: Sizes in tokens that steps are padded to, rising.
    """
    sequences = np.arange(MOST_SEQUENCES + 1)
    return Curve(
        name=name,
        step=_over_rows(step_ms)[:, _padded(edges)] / 1e3,
        context_seconds=context_us / 1e6,
        head=_along(head_ms, sequences) / 1e3,
        verify=_along(verify_ms, sequences) / 1e3,
        edges=edges,
    )


def load_curves(folder: Path) -> list[Curve]:
    """Read every curve of a folder, in the order of their names."""
    return [load_curve(path) for path in sorted(folder.glob("*.yaml"))]


def _checked(points: Points) -> Points:
    at = [x for x, _ in points]
    if not points or at != sorted(set(at)) or min(y for _, y in points) < 0:
        raise ValueError("points rise, and no time is below 0")
    return points


def _edges(rows: Sequence[int | Sequence[int]]) -> tuple[int, ...]:
    """Edges from a file: numbers, and rows of [first, last, apart]."""
    edges: list[int] = []
    for row in rows:
        if isinstance(row, int):
            edges.append(row)
        else:
            first, last, apart = row
            edges += range(first, last + 1, apart)
    if edges != sorted(set(edges)) or (edges and not 0 < edges[0] <= edges[-1] <= MOST_TOKENS):
        raise ValueError("edges rise, and lie within a step")
    return tuple(edges)


def _padded(edges: Sequence[int]) -> Ints:
    """The size that steps are padded to, by tokens; itself beyond the last edge."""
    tokens = np.arange(MOST_TOKENS + 1)
    last = edges[-1] if edges else 0
    sizes = np.concatenate([np.array(edges, dtype=np.int64), tokens[tokens > last]])
    return np.asarray(sizes[np.searchsorted(sizes, tokens)])


def _over_rows(by_sequences: Mapping[int, Points]) -> Floats:
    """Between the sequences that were measured it is straight; beyond them it stays as it is."""
    measured = sorted(by_sequences)
    tokens = np.arange(MOST_TOKENS + 1)
    lines = np.array([_along(by_sequences[sequences], tokens) for sequences in measured])
    if len(measured) == 1:
        return np.broadcast_to(lines, (MOST_SEQUENCES + 1, MOST_TOKENS + 1)).copy()
    sequences = np.clip(np.arange(MOST_SEQUENCES + 1), measured[0], measured[-1])
    after = np.clip(np.searchsorted(measured, sequences), 1, len(measured) - 1)
    low, high = np.array(measured)[after - 1], np.array(measured)[after]
    share = ((sequences - low) / (high - low))[:, None]
    return np.asarray((1.0 - share) * lines[after - 1] + share * lines[after])


def _along(points: Points, at: Ints) -> Floats:
    """Straight between the points and beyond the last two; before the first as there."""
    xs = np.array([x for x, _ in points], dtype=np.float64)
    ys = np.array([y for _, y in points], dtype=np.float64)
    inside = np.interp(at, xs, ys)
    if len(xs) == 1:
        return inside
    slope = (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])
    return np.asarray(inside + slope * np.maximum(0.0, at - xs[-1]))
