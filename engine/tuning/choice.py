"""Ranks the variants and chooses one; pure."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean, median, stdev

Goodput = Mapping[str, Mapping[int, float]]
"""Tokens a second, by variant and concurrency."""
Rounds = Mapping[str, Mapping[int, Sequence[float]]]
"""Likewise, a value for each round; the rounds of all variants had the same prompts."""

_LEAST_NOISE, _MOST_NOISE = 0.01, 0.03


def scores(goodput: Goodput) -> dict[str, float]:
    """Return how good each variant is over all concurrencies, which count alike.

    Returns:
        The geometric mean of its goodput over that of the best variant at each concurrency; 1 is a
        variant that is the best at all of them.
    """
    loads = sorted(next(iter(goodput.values())))
    best = {load: max(by_load[load] for by_load in goodput.values()) for load in loads}
    return {
        name: math.exp(mean(math.log(by_load[load] / best[load]) for load in loads))
        for name, by_load in goodput.items()
    }


def finalists(goodput: Goodput, most: int) -> list[str]:
    """Return the best variants, the best first; of equals the one that comes first."""
    found = scores(goodput)
    return sorted(found, key=lambda name: -found[name])[:most]


def medians(rounds: Rounds) -> dict[str, dict[int, float]]:
    """Return the median over the rounds."""
    return {
        name: {load: median(values) for load, values in by_load.items()}
        for name, by_load in rounds.items()
    }


def noise(rounds: Rounds, name: str, other: str) -> float:
    """Return the uncertainty of one variant's goodput over another's, as a share.

    It is the standard error of the logarithms of ratios, round by round, between 1 and 3 %: what
    is not known within 3 % takes more minutes, and is no reason for a slower variant.
    """
    errors = []
    for load, values in rounds[name].items():
        pairs = zip(values, rounds[other][load], strict=True)
        logs = [math.log(mine / theirs) for mine, theirs in pairs]
        if len(logs) > 1:
            errors.append(stdev(logs) / math.sqrt(len(logs)))
    if not errors:
        return _LEAST_NOISE
    of_mean = math.sqrt(sum(error * error for error in errors)) / len(errors)
    return min(_MOST_NOISE, max(_LEAST_NOISE, of_mean))


def choose(goodput: Goodput, rounds: Rounds, simplest_first: Sequence[str]) -> str:
    """Return the variant to recommend: the simplest of those that are level with the best.

    Args:
        goodput: Of those that may be chosen.
        rounds: What was confirmed; a variant that is not in it is level only within 1 %.
        simplest_first: All variants.
    """
    found = scores(goodput)
    best = max(found, key=lambda name: found[name])
    for name in simplest_first:
        if name not in found:
            continue
        is_confirmed = name in rounds and best in rounds
        allowed = noise(rounds, name, best) if is_confirmed else _LEAST_NOISE
        if found[name] >= found[best] * (1.0 - allowed):
            return name
    return best


def best_by_load(goodput: Goodput) -> dict[int, str]:
    """Return the variant with the highest goodput at each concurrency."""
    loads = sorted(next(iter(goodput.values())))
    return {load: max(goodput, key=lambda name: goodput[name][load]) for load in loads}
