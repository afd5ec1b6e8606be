"""vLLM's `metrics.speculative_decoding` object: read it and add the counts by source.

vLLM counts the steps and the drafted and accepted tokens of a request. Our worker encodes the
source of each draft in the upper bits of `per_step_drafted` (ADR 13). They are decoded and cleared
here.
Source: `SpeculativeDecodingMetrics` in vLLM 0.32.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from gateway.types import Acceptance, SourceCount

NATIVE, SUFFIX, HEAD = "native", "suffix", "head"
"""Sources: vLLM's own drafter, the suffix index, a draft head."""

_SOURCES = (NATIVE, SUFFIX, HEAD, NATIVE, SUFFIX)
"""By code. 0: the drafter gave no name. 4: the suffix index, following the request's prediction."""
_PREDICTED = 4
_NOTHING = SourceCount(0, 0)
_TOKENS = 0xFFFF
_CODE = 0xF
_STEP_BITS = 40
_MOST = 2**53
"""Larger counts are rejected: a float cannot hold them exactly."""

# Quotes inside a JSON string are escaped, so these only match real keys.
_KEY, _STEPS = b'"speculative_decoding":{', b'"per_step_drafted":['


class SpeculationReport(NamedTuple):
    """An answer's speculation metrics.

    Attributes:
        acceptance: The counts.
        coded_steps: `per_step_drafted` as received if it encodes sources; else empty.
    """

    acceptance: Acceptance
    coded_steps: Sequence[int] = ()


def read_report(metrics: object) -> SpeculationReport | None:
    """Read the speculation metrics in the `metrics` of an answer.

    If the steps are missing, or not in our worker's format, the totals count as native.

    Returns:
        None if the worker sent none: no speculation, n > 1, or an endpoint without metrics.

    Cost: linear in the steps; 0.6 to 1.1 ms for 4,000 of them (ADR 13).
    """
    found = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    if not isinstance(found, dict):
        return None
    steps, drafted, accepted = (
        _count(found.get(name))
        for name in ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
    )
    if steps is None or drafted is None or accepted is None or accepted > drafted:
        return None
    length = (accepted + steps) / steps if steps else None
    coded: list[int] = found.get("per_step_drafted") or []
    by_code = _by_code(coded, found.get("per_step_accepted") or [], steps=steps)
    if by_code is None:
        totals = {NATIVE: SourceCount(drafted, accepted)} if drafted else {}
        predicted = None if drafted else 0
        return SpeculationReport(Acceptance(steps, length, totals, predicted))
    tokens, taken = by_code
    acceptance = Acceptance(steps, length, _by_source(tokens, taken), taken[_PREDICTED])
    return SpeculationReport(acceptance, coded if max(coded, default=0) > _TOKENS else ())


def with_sources(text: bytes, report: SpeculationReport) -> bytes:
    """Add `speculative_decoding.sources` to an answer or frame, and clear the codes of its steps.

    Nothing else changes. If vLLM's object is nested, unlike today's, nothing changes at all.
    """
    begin = text.rfind(_KEY) + len(_KEY)
    end = text.find(b"}", begin)
    if begin < len(_KEY) or end <= begin or text.find(b"{", begin, end) >= 0:
        return text
    sources = {
        name: {"drafted": count.drafted, "accepted": count.accepted}
        for name, count in report.acceptance.sources.items()
    }
    added = b',"sources":' + json.dumps(sources, separators=(",", ":")).encode()
    members = text[begin:end]
    if report.coded_steps:
        members = _without_codes(members, report.coded_steps)
    return text[:begin] + members + added + text[end:]


def _without_codes(members: bytes, coded_steps: Sequence[int]) -> bytes:
    """The members of vLLM's object with the codes in `per_step_drafted` cleared."""
    before, key, rest = members.partition(_STEPS)
    _, close, after = rest.partition(b"]")
    if not close:
        return members
    plain = ",".join([str(step & _TOKENS) for step in coded_steps]).encode()
    return before + key + plain + close + after


def _by_code(
    drafted: list[int], accepted: list[int], *, steps: int
) -> tuple[list[int], list[int]] | None:
    """Drafted and accepted tokens for each code; None if a list is not in our worker's format.

    One loop without calls, since an answer can have thousands of steps.
    """
    if not _are_counts(drafted, accepted, steps=steps):
        return None
    tokens, taken = [0] * (_CODE + 1), [0] * (_CODE + 1)
    for step, left in zip(drafted, accepted, strict=True):
        whole, code = step & _TOKENS, step >> 16
        if left > whole:
            return None
        if code > _CODE:  # a second part
            border = code >> 8
            if border > whole:  # vLLM may have cut the draft
                border = whole
            first = left if left < border else border
            tokens[code & _CODE] += border
            taken[code & _CODE] += first
            code, whole, left = code >> 4 & _CODE, whole - border, left - first
        tokens[code] += whole
        taken[code] += left
    if any(tokens[len(_SOURCES) :]):
        return None
    return tokens, taken


def _are_counts(drafted: object, accepted: object, *, steps: int) -> bool:
    """Whether both are lists of integers in range, one for each step."""
    if not (isinstance(drafted, list) and isinstance(accepted, list)):
        return False
    if not len(drafted) == len(accepted) == steps:
        return False
    if not {*map(type, drafted), *map(type, accepted)} <= {int}:
        return False
    least = min(min(drafted, default=0), min(accepted, default=0))
    return least >= 0 and max(drafted, default=0) >> _STEP_BITS == 0


def _by_source(tokens: Sequence[int], taken: Sequence[int]) -> dict[str, SourceCount]:
    """Counts by source, for the sources that drafted, from counts by code."""
    sources: dict[str, SourceCount] = {}
    for code, name in enumerate(_SOURCES):
        if tokens[code]:
            before = sources.get(name, _NOTHING)
            sources[name] = SourceCount(
                before.drafted + tokens[code], before.accepted + taken[code]
            )
    return sources


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < _MOST else None
