"""Says of each source of drafts whether it drafts and why, in words for operators; pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

_SOURCES = ("suffix", "head", "native")
_Facts = Mapping[str, Any]


def describe_sources(parts: _Facts) -> list[JsonValue]:
    """Describe the sources of an engine, those that are off as well.

    Args:
        parts: The engine's parts of the report, by name.

    Returns:
        For each source its `name`, `state`, `verdict` (a sentence or two), and of the last minute
        `drafted_per_second` (verified tokens) and `acceptance`; None while that is unknown.
    """
    gate: _Facts | None = parts.get("gate")
    heads: _Facts = parts.get("heads", {})
    described: list[JsonValue] = []
    for name in _SOURCES:
        recent: _Facts = parts.get("acceptance", {}).get(name, {}).get("recent", {})
        state, verdict = _judge(name, gate, heads, recent)
        drafted, seconds = recent.get("drafted", 0), recent.get("seconds", 0.0)
        described.append({
            "name": name,
            "state": state,
            "verdict": verdict,
            "drafted_per_second": round(drafted / seconds, 2) if seconds else None,
            "acceptance": round(recent["accepted"] / drafted, 4) if drafted else None,
        })  # fmt: skip
    return described


def _judge(name: str, gate: _Facts | None, heads: _Facts, recent: _Facts) -> tuple[str, str]:
    """Return a state and its reason; what is certain comes before what is likely."""
    if gate is None:
        return "off", "Off: engine.speculation.sources is off."
    if name not in gate["sources"]:
        return "off", "Off: not listed in engine.speculation.sources."
    if gate["sources"][name]["paused"]:
        errors = ", ".join(f"{cause} {count}" for cause, count in gate["fallbacks"].items())
        return "paused", f"Paused after repeated errors ({errors}). It will be tried again."
    if name == "head" and heads.get("serving") is None:
        return _missing_head(heads.get("changes", ()))
    steps = gate["recent_decisions"]
    if not any(steps.values()):
        return "idle", "Idle: no step in the last minute."
    if gate["limited"]:
        limit = f"engine.speculation.max_batch_size ({gate['max_batch_size']})"
        return "limited", f"Does not draft: more requests run than {limit} allows."
    if recent.get("drafted", 0):
        return "drafting", _rate(recent["drafted"], recent["accepted"])
    price = f"price {gate['price']:.2f}"
    if name == "head":
        why = f"a pass takes longer than its tokens would save ({price})"
        return "priced_out", f"Does not draft: {why}. It is tried again now and then."
    if steps["unknown"] >= max(steps["drafted"], steps["priced_out"]):
        return "no_proposals", "Does not draft: it has no likely continuation of the texts."
    why = f"its tokens are worth less than the time they take ({price})"
    return "priced_out", f"Does not draft: {why}, or less than those of other sources."


def _rate(drafted: int, accepted: int) -> str:
    percent = round(100 * accepted / drafted)
    return f"Drafts: {percent} % of {drafted:,} tokens were accepted in the last minute."


def _missing_head(changes: Sequence[_Facts]) -> tuple[str, str]:
    loading = [change for change in changes if change["state"] == "loading"]
    if loading and loading[-1]["action"] == "load":
        return "loading", f"Loading the head {loading[-1]['name']}."
    return "absent", "Does not draft: no head is loaded."
