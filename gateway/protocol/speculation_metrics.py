"""vLLM's `metrics.speculative_decoding` object: read it, and complete it with counts by source.

vLLM counts steps, drafted and accepted tokens of a request; which source proposed them it does
not know. Source: `SpeculativeDecodingMetrics` in vLLM 0.32.
"""

import json
from collections.abc import Mapping
from typing import Any

from gateway.protocol.json_object import JsonObject
from gateway.types import Acceptance, SourceCount

NATIVE = "native"
"""The source of drafts that a drafter of vLLM itself proposed."""


def read_acceptance(answer: Mapping[str, Any]) -> Acceptance | None:
    """What speculation did for the request that `answer` (a JSON object) belongs to.

    None when the worker did not say: no speculation, n > 1, or an endpoint without metrics.
    """
    metrics = answer.get("metrics")
    found = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    if not isinstance(found, dict):
        return None
    steps, drafted, accepted = (
        found.get(name)
        for name in ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
    )
    if not (isinstance(steps, int) and isinstance(drafted, int) and isinstance(accepted, int)):
        return None
    return Acceptance(
        steps=steps,
        length=(accepted + steps) / steps if steps else None,
        sources={NATIVE: SourceCount(drafted=drafted, accepted=accepted)},
    )


def with_sources(answer: JsonObject, acceptance: Acceptance) -> str:
    """The answer's text with `metrics.speculative_decoding.sources` added, all else untouched."""
    metrics = answer.inner("metrics")
    found = metrics.inner("speculative_decoding") if metrics is not None else None
    if metrics is None or found is None:
        return answer.edited({})
    sources = {
        name: {"drafted": count.drafted, "accepted": count.accepted}
        for name, count in acceptance.sources.items()
    }
    completed = found.edited({"sources": json.dumps(sources, separators=(",", ":"))})
    return answer.edited({"metrics": metrics.edited({"speculative_decoding": completed})})
