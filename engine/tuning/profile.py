"""Writes the recommended profile: the one that was started from with other drafters, and why."""

from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from pydantic import JsonValue

from engine.config import EngineSettings
from engine.tuning.choice import scores
from engine.tuning.findings import About, Findings
from engine.tuning.variants import Variant

_NOT_OURS = {"host", "port", "uds", "speculation"}


def profile_of(
    settings: EngineSettings, variants: Sequence[Variant], found: Findings, about: About
) -> str:
    """Return the profile as YAML.

    Args:
        settings: The profile that was tuned.
        variants: All that were compared.
        found: What was measured.
        about: Where and with what.
    """
    (chosen,) = (variant for variant in variants if variant.name == found.chosen)
    document: dict[str, Any] = {}
    if about.profile is not None:
        read = yaml.safe_load(about.profile.read_text(encoding="utf-8")) or {}
        document = {"gateway": read["gateway"]} if "gateway" in read else {}
    engine = settings.model_dump(mode="json", exclude_unset=True, exclude=_NOT_OURS)
    document["engine"] = {"model": settings.model, **engine}
    speculation = chosen.speculation(settings)
    passes = _passes(found) if settings.speculation.step_cost is None else None
    if chosen.forward == "head" and passes:
        head = speculation.get("head")
        speculation["head"] = {**(head if isinstance(head, dict) else {}), "pass_cost": passes}
    lines = [
        "# Made by `specgate tune`; report.html has all figures.",
        *(f"# {line}" for line in _origin(about)),
        *_dumped(document),
        "  speculation:",
        *(f"    # {line}" for line in _reasons(found)),
        *(f"    {line}" for line in _dumped(speculation)),
    ]
    return "\n".join(lines) + "\n"


def _origin(about: About) -> Iterator[str]:
    yield f"{about.date}, {_plain(about.processor)}"
    yield f"{_plain(about.model)}, {about.prompts} prompts of {_plain(about.workload)}, greedy"


def _reasons(found: Findings) -> Iterator[str]:
    """Say why, in figures."""
    judged, ranked = found.judged, scores(found.judged)
    rounds = found.count_rounds
    kind = f"confirmed, rounds: {rounds}" if rounds else "simulated, not confirmed"
    yield f"Tokens per second of all clients together, {kind}:"
    best = max(ranked, key=lambda name: ranked[name])
    for name in sorted(ranked, key=lambda name: -ranked[name]):
        figures = ", ".join(f"{judged[name][load]:.0f} with {load}" for load in found.seats)
        mark = " (this one)" if name == found.chosen else ""
        yield f"  {name}{mark}: {figures}; {ranked[name]:.3f} of the best over all"
    if found.chosen != best:
        yield f"{found.chosen} is simpler than {best}, and level with it within the noise."
    for load, name in found.is_best_at().items():
        if name != found.chosen:
            share = judged[found.chosen][load] / judged[name][load]
            yield f"At concurrency {load} {name} is faster; this one reaches {share:.3f} of it."
    one = found.measured[found.chosen]
    yield f"Memory: {one.memory_mib:.0f} MiB. Alone: {one.goodput:.1f} tokens per second."


def _passes(found: Findings) -> list[JsonValue]:
    """Times of the head's pass, in steps of one token."""
    one = found.measured[found.chosen]
    if not one.pass_ms or not one.step_ms or one.pass_ms[0][0] != 1:
        return []
    step, costs, least = one.step_ms[0][1], list[JsonValue](), 0.0
    for sequences, ms in one.pass_ms:
        least = max(least, round(ms / step, 3), 0.001)
        costs.append([sequences, least])
    return costs


class _ListsOnALine(yaml.SafeDumper):
    """Writes a list as [1, 2], as the profiles in configs/ do."""

    def represent_list(self, items: Any) -> yaml.SequenceNode:
        return self.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True)


_ListsOnALine.add_representer(list, _ListsOnALine.represent_list)


def _dumped(document: Any) -> list[str]:
    text: str = yaml.dump(document, Dumper=_ListsOnALine, sort_keys=False, allow_unicode=True)
    return text.splitlines()


def _plain(text: str) -> str:
    """Return it on one line, for a comment."""
    return " ".join(text.split())
