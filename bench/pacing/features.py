"""Features that an eavesdropper can compute from times and sizes of packets. Pure.

The text is encrypted; its packets are not hidden: when each came after the request, and how long
it was. Every feature here is a function of these two lists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.pacing.figures import Values

PACKETS = 80
"""Packets whose size and gap are features of their own; later ones are only in the sums."""
_FINE_MS, _COARSE_MS, _BINS = 25.0, 200.0, 80
_BURST_MS = 2.0
_QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_SIZE_BINS = 48

_CHARACTERS = 320

_EARLY_CHARACTERS, _EARLY_PACKETS = 80, 20

GROUPS = ("all", "borders", "early", "sizes", "times", "totals")
"""`all` has every feature; each of the others is one group of them."""


@dataclass(frozen=True, slots=True)
class Bare:
    """Bytes of a packet without its text, as estimated from many packets.

    Attributes:
        first: The smallest first packet, which has the head of the answer.
        later: The smallest later one.
    """

    first: float
    later: float


def features(times_ms: Values, sizes: Values, bare: Bare) -> Mapping[str, Values]:
    """Features of one answer by group; the groups' lengths are the same for every answer.

    Args:
        times_ms: Of each packet after the request, rising; shape (packets,), at least one.
        sizes: Its bytes; same shape.
        bare: Of all answers that were seen.
    """
    texts = _texts(sizes, bare)
    found = {
        "borders": np.concatenate([_borders(texts), _head(texts)]),
        "early": _early(texts),
        "sizes": _of_sizes(sizes),
        "times": _of_times(times_ms),
        "totals": np.array([len(sizes), sizes.sum(), times_ms[-1] - times_ms[0], times_ms[0]]),
    }
    return found | {"all": np.concatenate([*found.values(), _of_both(times_ms, sizes)])}


def table(observed: Sequence[tuple[Values, Values]]) -> Mapping[str, Values]:
    """Features of many answers; by group an array of shape (answers, features)."""
    bare = Bare(
        first=min(sizes[0] for _, sizes in observed),
        later=min((sizes[1:].min(initial=np.inf) for _, sizes in observed)),
    )
    rows = [features(times_ms, sizes, bare) for times_ms, sizes in observed]
    return {group: np.stack([row[group] for row in rows]) for group in GROUPS}


def _texts(sizes: Values, bare: Bare) -> Values:
    """Bytes of text in each packet, if nothing hides them."""
    texts = sizes % bare.later  # several chunks in one packet weigh so many times more
    texts[0] = sizes[0] - bare.first
    return texts


def _borders(texts: Values) -> Values:
    """Where in the text packets end: a text is always cut at the borders of its tokens."""
    found = np.zeros(_CHARACTERS)
    ends = np.cumsum(texts).astype(int)
    found[ends[ends < _CHARACTERS]] = 1.0
    return found


def _early(texts: Values) -> Values:
    """The same of the beginning, where answers to one prompt are most alike."""
    parts = _head(texts), _head(np.cumsum(texts))
    counted = [part[:_EARLY_PACKETS] for part in parts]
    return np.concatenate([_borders(texts)[:_EARLY_CHARACTERS], *counted])


def _of_sizes(sizes: Values) -> Values:
    # Most bytes are the same in all packets; the smallest one shows how many.
    over = sizes - np.median(sizes)
    histogram, _ = np.histogram(over, bins=_SIZE_BINS, range=(-24, 24))
    return np.concatenate(
        [
            _head(sizes),
            _head(np.cumsum(sizes)),
            histogram,
            np.quantile(sizes, _QUANTILES),
            [sizes.mean(), sizes.std(), (over > 0).mean()],
        ]
    )


def _of_times(times_ms: Values) -> Values:
    gaps = np.diff(times_ms, prepend=0.0)  # the first is the wait for the first token
    later = gaps[1:] if len(gaps) > 1 else np.zeros(1)
    since = times_ms - times_ms[0]
    return np.concatenate(
        [
            _head(gaps),
            _head(since),
            _binned(since, np.ones_like(since), _FINE_MS),
            _binned(since, np.ones_like(since), _COARSE_MS),
            np.quantile(later, _QUANTILES),
            [later.mean(), later.std(), (later < _BURST_MS).mean()],
        ]
    )


def _of_both(times_ms: Values, sizes: Values) -> Values:
    since = times_ms - times_ms[0]
    begins = np.flatnonzero(np.diff(since, prepend=-np.inf) > _BURST_MS)
    burst_sizes = np.add.reduceat(sizes, begins)
    return np.concatenate(
        [
            _binned(since, sizes, _FINE_MS),
            np.cumsum(_binned(since, sizes, _COARSE_MS)),
            _head(burst_sizes),
            _head(np.diff(since[begins], append=since[-1])),
            [len(begins), burst_sizes.mean(), burst_sizes.std(), len(sizes) / len(begins)],
        ]
    )


def _head(values: Values) -> Values:
    found = np.zeros(PACKETS)
    found[: len(values)] = values[:PACKETS]
    return found


def _binned(since_ms: Values, weights: Values, width_ms: float) -> Values:
    at = np.minimum(since_ms / width_ms, _BINS - 1).astype(int)
    return np.bincount(at, weights=weights, minlength=_BINS)[:_BINS].astype(float)
