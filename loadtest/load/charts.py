"""Charts as SVG text, made by hand so that a report needs no library and no script. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import accumulate

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 104, 16, 48  # at the right the names of the lines
_COLOURS = ("#2a6fb5", "#b5482a", "#3d8a4e", "#8a4e9e", "#a08020", "#4a7a7a", "#b02a6f", "#555555")
_MOST_POINTS = 400


def line_chart(lines: Mapping[str, Points], *, x: str, y: str, logarithmic_x: bool = False) -> str:
    """Lines over one pair of axes.

    Args:
        lines: By name, points in order of x; empty ones are left out.
        x: Label of the axis, with the unit.
        y: Likewise.
        logarithmic_x: Values of x at or below zero are then drawn at the smallest above it.
    """
    return _chart(lines, x=x, y=y, logarithmic_x=logarithmic_x, draw=_line)


def dot_chart(lines: Mapping[str, Points], *, x: str, y: str) -> str:
    """The same with a dot for each point."""
    return _chart(lines, x=x, y=y, logarithmic_x=False, draw=_dots)


def shares_below(values: Sequence[float], weights: Sequence[float] | None = None) -> Points:
    """The distribution of values as points for a line: value, and the share at or below it.

    Args:
        values: In any order.
        weights: How often each counts; None: once.
    """
    ordered = sorted(zip(values, [1.0] * len(values) if weights is None else weights, strict=True))
    sums = list(accumulate(weight for _, weight in ordered))
    last = len(ordered) - 1
    numbers = sorted({*range(0, last + 1, last // _MOST_POINTS + 1), last}) if ordered else []
    return [(ordered[number][0], sums[number] / sums[last]) for number in numbers]


# Below that a part of it may be no number but zero.
_LEAST_SPAN = 1e-300


class _Axis:
    """Maps values to pixels."""

    def __init__(self, values: Sequence[float], *, begin: int, end: int, is_log: bool) -> None:
        above = [value for value in values if value > 0]
        self._is_log = is_log and bool(above)
        self._least = min(above) if self._is_log else min(0.0, *values)
        self._most = max(values)
        if self._is_log:
            if math.log(self._most) <= math.log(self._least):  # also of neighbouring numbers
                self._most = self._least * 10
        elif self._most - self._least < _LEAST_SPAN:
            self._most = self._least + 1.0
        self._begin, self._end = begin, end

    def place(self, value: float) -> float:
        low, high, at = self._least, self._most, max(value, self._least)
        if self._is_log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return self._begin + (self._end - self._begin) * (at - low) / (high - low)

    def ticks(self) -> list[float]:
        if self._is_log:
            first, last = math.floor(math.log10(self._least)), math.ceil(math.log10(self._most))
            found = [base * 10.0**power for power in range(first, last + 1) for base in (1, 2, 5)]
            found = [tick for tick in found if self._least <= tick <= self._most]
            return found if len(found) >= 2 else [self._least, self._most]
        span = self._most - self._least
        step = 10.0 ** math.floor(math.log10(span))
        step = next(step * part for part in (0.2, 0.5, 1.0, 2.0) if span / (step * part) <= 6)
        first = math.ceil(self._least / step)
        return [step * number for number in range(first, math.floor(self._most / step) + 1)]


class _Pencil:
    def __init__(self, x: _Axis, y: _Axis) -> None:
        self.x, self.y = x, y

    def at(self, point: tuple[float, float]) -> str:
        return f"{self.x.place(point[0]):.1f},{self.y.place(point[1]):.1f}"


_Draw = Callable[[_Pencil, Points, str], str]


def _line(pencil: _Pencil, points: Points, colour: str) -> str:
    path = " ".join(pencil.at(point) for point in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'


def _dots(pencil: _Pencil, points: Points, colour: str) -> str:
    places = (pencil.at(point).split(",") for point in points)
    return "".join(
        f'<circle cx="{x}" cy="{y}" r="2" fill="{colour}" fill-opacity=".6"/>' for x, y in places
    )


def _chart(lines: Mapping[str, Points], *, x: str, y: str, logarithmic_x: bool, draw: _Draw) -> str:
    shown = {name: points for name, points in lines.items() if points}
    if not shown:
        return "<p>No value.</p>"
    every = [point for points in shown.values() for point in points]
    pencil = _Pencil(
        _Axis([at for at, _ in every], begin=_LEFT, end=_WIDTH - _RIGHT, is_log=logarithmic_x),
        _Axis([at for _, at in every], begin=_HEIGHT - _BOTTOM, end=_TOP, is_log=False),
    )
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">', _frame(pencil, x, y)]
    for number, (name, points) in enumerate(shown.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        parts += [draw(pencil, points, colour), _key(number, name, colour)]
    return "".join([*parts, "</svg>"])


def _frame(pencil: _Pencil, x: str, y: str) -> str:
    bottom, right, middle = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT, (_HEIGHT - _BOTTOM + _TOP) / 2
    parts = []
    for tick in pencil.x.ticks():
        at = pencil.x.place(tick)
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{bottom}"/>')
        parts.append(_text(at, bottom + 16, f"{tick:.4g}", "middle"))
    for tick in pencil.y.ticks():
        at = pencil.y.place(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(_text(_LEFT - 6, at + 4, f"{tick:.4g}", "end"))
    parts.append(_text((_LEFT + right) / 2, _HEIGHT - 10, x, "middle"))
    turned = f'transform="rotate(-90 14 {middle:.0f})"'
    parts.append(_text(14, middle, y, "middle", turned))
    return "".join(parts)


def _key(number: int, name: str, colour: str) -> str:
    top = _TOP + 8 + 16 * number
    mark = f'<rect x="{_WIDTH - _RIGHT + 8}" y="{top - 4}" width="12" height="3" fill="{colour}"/>'
    return mark + _text(_WIDTH - _RIGHT + 24, top + 1, name, "start")


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}'
    return f"<text {place}>{escape(text)}</text>"
