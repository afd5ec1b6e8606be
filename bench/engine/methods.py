"""The methods that are compared, each with its worker's settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import JsonValue

from bench.engine.plan import KV_GIB
from bench.suffix.corpus import CONFIG
from engine.config import EngineSettings

NONE, VLLM, ARCTIC, HYBRID = "none", "vllm", "arctic_suffix", "hybrid"

# vLLM's own drafters, as its `speculative_config`; and unmodified vLLM, without drafts and kernels
# of ours.
_BASELINES: Mapping[str, Mapping[str, JsonValue]] = {
    VLLM: {},
    "ngram": {
        "method": "ngram",
        "num_speculative_tokens": 8,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
    },
    # Of 16 and vLLM's default 24 the faster for it: over 66 requests in 3 rounds (busy machine)
    # 16 on chat, edit, agent and mixed by 2 to 15 %, 24 on code and edit_prediction by 1 to 4 %.
    ARCTIC: {"method": "suffix", "num_speculative_tokens": 16},
    "arctic_suffix_default": {"method": "suffix"},
}
UNASKED = frozenset({"arctic_suffix_default"})
"""Measured only where `--methods` names them."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of drafting.

    Attributes:
        speculation: The section of our settings; for a baseline the one that turns ours off.
        baseline: vLLM's `speculative_config`, run by vLLM's own scheduler; else None.
    """

    name: str
    speculation: Mapping[str, JsonValue]
    baseline: Mapping[str, JsonValue] | None = None

    @property
    def is_ours(self) -> bool:
        return self.baseline is None and bool(self.speculation["sources"])

    @property
    def needs_arctic(self) -> bool:
        return self.baseline is not None and self.baseline.get("method") == "suffix"

    def as_json(self) -> dict[str, JsonValue]:
        """The settings in which it differs from the others."""
        if self.baseline is not None:
            return {"speculative_config": dict(self.baseline)}
        return {"speculation": dict(self.speculation)}


def methods_of(settings: EngineSettings) -> Sequence[Method]:
    """The methods of a profile: none, vLLM's own, each of the profile's sources alone, and all.

    `none` has our kernels, so ratios to it are the gain of drafting alone. Methods with equal
    configurations are all listed; `same_workers` finds them.
    """
    speculation = settings.speculation
    cold = speculation.suffix.model_copy(update={"warm_start": False})
    profile: dict[str, JsonValue] = speculation.model_copy(update={"suffix": cold}).model_dump(
        mode="json"
    )
    off: dict[str, JsonValue] = {**profile, "sources": [], "native": None}
    ours = [
        Method(source, _alone(source, profile))
        for source in dict.fromkeys(("suffix", *speculation.sources))
    ]
    baselines = [Method(name, off, baseline) for name, baseline in _BASELINES.items()]
    return [Method(NONE, off), *baselines, *ours, Method(HYBRID, profile)]


def same_workers(methods: Sequence[Method]) -> dict[str, str]:
    """Map each method whose configuration equals an earlier one's to the name of that one."""
    found: dict[str, str] = {}
    for at, method in enumerate(methods):
        for earlier in methods[:at]:
            if method.as_json() == earlier.as_json() and earlier.name not in found:
                found[method.name] = earlier.name
    return found


def profile_of(model: str | None) -> Path:
    """Return the profile in configs/ that is made for a model; else the default one."""
    for path in sorted(CONFIG.parent.glob("*.yaml")):
        section = yaml.safe_load(path.read_text(encoding="utf-8")).get("engine") or {}
        if model is not None and section.get("model") == model:
            return path
    return CONFIG


def write_profile(path: Path, settings: EngineSettings, method: Method) -> None:
    """Write the profile of a method's worker: all as in `settings` but drafting and KV space."""
    document = settings.model_dump(mode="json", exclude_none=True)
    document["speculation"] = method.speculation
    # A peer's package may bring a vLLM plugin of its own; it is to be used as vLLM alone uses it.
    document["environment"] |= {"VLLM_CPU_KVCACHE_SPACE": str(KV_GIB), "VLLM_PLUGINS": "specgate"}
    path.write_text(yaml.safe_dump({"engine": document}), encoding="utf-8")


def _alone(source: str, profile: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    native = profile["native"] if source == "native" else None
    return {**profile, "sources": [source], "native": native}
