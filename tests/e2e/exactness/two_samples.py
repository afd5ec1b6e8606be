"""Do two samples come from the same distribution? Pearson's chi-square test for two samples.

Source: W. H. Press et al., Numerical Recipes, 3rd ed., 14.3 and 6.2 (incomplete gamma function).
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray


def p_value(first: Sequence[Hashable], second: Sequence[Hashable], *, cells: int) -> float:
    """Return the chance of a difference as large as this one if there is none.

    Args:
        first: A sample.
        second: The other; independent, of any length.
        cells: The commonest values of both together have a cell each, all others share the last.
    """
    return _p_value(np.array(tabulate(first, second, cells=cells)))


def tabulate(
    first: Sequence[Hashable], second: Sequence[Hashable], *, cells: int
) -> tuple[list[int], list[int]]:
    """Count both samples in cells, as `p_value` does; empty cells are left out."""
    common = [value for value, _ in Counter([*first, *second]).most_common(cells - 1)]
    rows = []
    for counts in (Counter(first), Counter(second)):
        row = [counts[value] for value in common]
        rows.append([*row, counts.total() - sum(row)])
    kept = [pair for pair in zip(*rows, strict=True) if sum(pair)]
    return [pair[0] for pair in kept], [pair[1] for pair in kept]


def power(
    first: Sequence[int], second: Sequence[int], *, shift: float, significance: float, rounds: int
) -> float:
    """Return the chance that a difference is found, by simulation with a fixed seed.

    The difference: of the distribution that both samples are taken to come from, a share `shift`
    of every cell moves to the largest one, in the second sample.

    Args:
        first, second: Counts in the same cells.
        shift: 0 to 1.
        significance: A p-value below it counts as found.
        rounds: How often to simulate.
    """
    source = np.random.default_rng(1)
    counts = np.array([first, second])
    same = counts.sum(axis=0) / counts.sum()
    moved = (1.0 - shift) * same
    moved[same.argmax()] += shift
    sizes = counts.sum(axis=1)
    found = 0
    for _ in range(rounds):
        drawn = [source.multinomial(sizes[0], same), source.multinomial(sizes[1], moved)]
        found += _p_value(np.array(drawn)) < significance
    return found / rounds


def _p_value(counts: NDArray[np.int64]) -> float:
    """The p-value of a table of counts; int, shape (2, cells)."""
    counts = counts[:, counts.sum(axis=0) > 0]
    sizes = counts.sum(axis=1, keepdims=True)
    expected = sizes * counts.sum(axis=0) / counts.sum()
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return survival(statistic, degrees=counts.shape[1] - 1)


def survival(statistic: float, *, degrees: int) -> float:
    """The chance that a chi-square variable of so many degrees of freedom is larger."""
    half = statistic / 2.0
    if degrees == 0 or half == 0.0:
        return 1.0
    # Q(a + 1, x) = Q(a, x) + x^a e^-x / gamma(a + 1), from a = 1/2 or 1 on.
    at = 0.5 if degrees % 2 else 1.0
    upper = math.erfc(math.sqrt(half)) if degrees % 2 else math.exp(-half)
    while at < degrees / 2:
        upper += math.exp(at * math.log(half) - half - math.lgamma(at + 1.0))
        at += 1.0
    return min(1.0, upper)
