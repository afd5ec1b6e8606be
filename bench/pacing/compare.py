"""What a mode adds over no pacing, and how even its gaps are, for one round. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.pacing.figures import Gaps, Played, Values, percentile

LEAST_TOKENS = 50
"""A stream with fewer has no percentiles of its own worth telling."""

Pair = tuple[Played, Played]
"""The same pattern played without pacing, and in the mode under test."""


@dataclass(frozen=True, slots=True)
class Added:
    """What a mode adds, in milliseconds unless the name says otherwise; None without streams.

    Attributes:
        first_token_ms_p99: p99 of the delay of the first text, less the same without pacing.
        first_token_ms_paired_p99: p99 of the differences stream by stream, with the noise of both.
        delay_ms_p50: Of the differences token by token.
        delay_ms_max: The worst token of all.
        end_ms_p99: Of the differences of the end stream by stream.
        bytes_ratio: Bytes of all answers over those without pacing.
    """

    first_token_ms_p99: float | None
    first_token_ms_paired_p99: float | None
    delay_ms_p50: float | None
    delay_ms_p99: float | None
    delay_ms_max: float | None
    end_ms_p50: float | None
    end_ms_p99: float | None
    bytes_ratio: float | None


def pairs_of(off: Sequence[Played | None], other: Sequence[Played | None]) -> list[Pair]:
    """The streams that were good in both modes."""
    paired = zip(off, other, strict=True)
    return [(base, each) for base, each in paired if base is not None and each is not None]


def added(pairs: Sequence[Pair]) -> Added:
    """Compute them over all streams and tokens of a round."""
    first_off = _array(base.first_ms for base, _ in pairs)
    first = _array(each.first_ms for _, each in pairs)
    ends = _array(each.end_ms - base.end_ms for base, each in pairs)
    tokens = [each.delays_ms - base.delays_ms for base, each in pairs]
    delays = np.concatenate(tokens) if tokens else np.zeros(0)
    bytes_off = sum(base.bytes for base, _ in pairs)
    p99, p99_off = percentile(first, 0.99), percentile(first_off, 0.99)
    return Added(
        first_token_ms_p99=p99 - p99_off if p99 is not None and p99_off is not None else None,
        first_token_ms_paired_p99=percentile(first - first_off, 0.99),
        delay_ms_p50=percentile(delays, 0.5),
        delay_ms_p99=percentile(delays, 0.99),
        delay_ms_max=percentile(delays, 1.0),
        end_ms_p50=percentile(ends, 0.5),
        end_ms_p99=percentile(ends, 0.99),
        bytes_ratio=sum(each.bytes for _, each in pairs) / bytes_off if bytes_off else None,
    )


@dataclass(frozen=True, slots=True)
class Evenness:
    """How even streams are: the median over streams of each stream's own figure.

    Attributes:
        token_ratio: p99 over median of the gaps per token; `token_variation` their variation.
        character_ratio: The same of the gaps per character; `character_variation` likewise.
        piece_ratio: The same of the gaps between pieces; `piece_variation` likewise.
        tokens_per_piece: Mean.
    """

    token_ratio: float | None
    token_variation: float | None
    character_ratio: float | None
    character_variation: float | None
    piece_ratio: float | None
    piece_variation: float | None
    tokens_per_piece: float | None


def evenness(gaps: Sequence[Gaps]) -> Evenness:
    """Compute it; streams that do not have a figure are left out of that figure."""

    def over_streams(figure: Callable[[Gaps], float | None]) -> float | None:
        known = [value for each in gaps if (value := figure(each)) is not None]
        return float(np.median(known)) if known else None

    return Evenness(
        token_ratio=over_streams(lambda each: each.ratio("token")),
        token_variation=over_streams(lambda each: each.variation("token")),
        character_ratio=over_streams(lambda each: each.ratio("character")),
        character_variation=over_streams(lambda each: each.variation("character")),
        piece_ratio=over_streams(lambda each: each.ratio("piece")),
        piece_variation=over_streams(lambda each: each.variation("piece")),
        tokens_per_piece=over_streams(lambda each: each.tokens_per_piece),
    )


def long_enough(streams: Sequence[Played]) -> list[Played]:
    """Streams that have enough gaps for a percentile."""
    return [each for each in streams if each.pattern.tokens >= LEAST_TOKENS]


def uneven(streams: Sequence[Played], least_ratio: float) -> list[Played]:
    """Streams whose p99 over median is `least_ratio` or more at the worker."""
    return [
        each
        for each in streams
        if (ratio := each.worker_gaps().ratio("token")) is not None and ratio >= least_ratio
    ]


def _array(values: Iterable[float]) -> Values:
    return np.fromiter(values, float)
