"""vLLM's `metrics.speculative_decoding` object: read it, and complete it with counts by source.

vLLM counts steps, drafted and accepted tokens of a request; which source proposed them it does
not know. Source: `SpeculativeDecodingMetrics` in vLLM 0.32.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from gateway.types import Acceptance, SourceCount

_KEY = b'"speculative_decoding":{'
# A quote inside a JSON string is escaped, so the key can only be matched where it really is one.
_OBJECT = re.compile(rb'"speculative_decoding":\{[^{}]+\}')

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


def with_sources(text: bytes, acceptance: Acceptance) -> bytes:
    """An answer or stream frame with `speculative_decoding.sources` added, all else untouched.

    Unchanged where vLLM's object is not the flat one we know.
    """
    found = _OBJECT.search(text, max(0, text.rfind(_KEY)))
    if found is None:
        return text
    sources = {
        name: {"drafted": count.drafted, "accepted": count.accepted}
        for name, count in acceptance.sources.items()
    }
    added = b',"sources":' + json.dumps(sources, separators=(",", ":")).encode()
    return text[: found.end() - 1] + added + text[found.end() - 1 :]
