"""The settings that are compared, and the workers that they are asked of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from bench.engine.methods import HYBRID, NONE, Method, methods_of
from bench.gate.plan import MOST_CLIENTS, Plan
from engine.config import EngineSettings

GATE, FIXED = "gate", "fixed"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of drafting.

    Attributes:
        worker: The worker that is asked, by the name of its method.
        extra: What a request says of its drafts, as `vllm_xargs`.
    """

    name: str
    worker: str
    extra: Mapping[str, JsonValue]


def settings_of(plan: Plan) -> Sequence[Setting]:
    """No drafts, the gate, and every fixed length; a fixed one is not cut at any price."""
    fixed = [
        Setting(
            f"{FIXED}-{tokens}",
            FIXED,
            {"specgate_price": 0.0, "specgate_max_draft_tokens": tokens},
        )
        for tokens in plan.draft_tokens
    ]
    return [Setting(NONE, NONE, {}), Setting(GATE, GATE, {}), *fixed]


def workers_of(profile: EngineSettings) -> Sequence[Method]:
    """Plain vLLM, and two with all of the profile's sources, so that fixed settings teach the gate
    nothing.
    """
    methods = {method.name: method for method in methods_of(profile)}
    hybrid = methods[HYBRID]
    return [methods[NONE], replace(hybrid, name=GATE), replace(hybrid, name=FIXED)]


def seated(profile: EngineSettings) -> EngineSettings:
    """A profile with a seat for every client."""
    return profile.model_copy(update={"vllm": {**profile.vllm, "max_num_seqs": MOST_CLIENTS}})
