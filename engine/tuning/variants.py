"""The variants: what a model can draft with, from its profile and its files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from engine.config import EngineSettings
from engine.errors import ConfigError
from engine.models import read_model_config, shipped_head

Source = Literal["suffix", "head", "native"]

OFF = "off"
_MTP_KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
"""Entries of config.json with the number of layers for multi-token prediction."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to draft.

    Attributes:
        sources: As in `engine.speculation.sources`; none: no drafts.
        native: vLLM's `speculative_config`, for the source native.
    """

    sources: tuple[Source, ...]
    native: dict[str, JsonValue] | None = None

    @property
    def name(self) -> str:
        """Its sources, joined."""
        return "+".join(self.sources) or OFF

    @property
    def forward(self) -> Source | None:
        """The source that needs a forward pass, if there is one."""
        return next((source for source in self.sources if source != "suffix"), None)

    def speculation(self, settings: EngineSettings) -> dict[str, JsonValue]:
        """Return the profile's section with this variant's sources."""
        section: dict[str, JsonValue] = settings.speculation.model_dump(
            mode="json", exclude_unset=True
        )
        section |= {"sources": list(self.sources)}
        section.pop("native", None)
        if self.forward != "head":
            section.pop("head", None)
        if "native" in self.sources and self.native is not None:
            section["native"] = {"config": self.native}
        return section


def find_variants(settings: EngineSettings, folder: Path | None) -> list[Variant]:
    """Return what is at hand, the simplest first.

    Args:
        settings: The profile. Its head and its native drafter are at hand.
        folder: The model's, in whose config.json layers for multi-token prediction are looked for;
            None if it is not on this machine.
    """
    found = [Variant(()), Variant(("suffix",))]
    if settings.speculation.head.path is not None or shipped_head(settings.model) is not None:
        found += [Variant(("head",)), Variant(("suffix", "head"))]
    native = _native(settings, folder)
    if native is not None:
        found += [Variant(("native",), native), Variant(("suffix", "native"), native)]
    return found


def pick(variants: Sequence[Variant], names: Sequence[str]) -> list[Variant]:
    """Return the variants of these names, in their own order; no names: all.

    Raises:
        ConfigError: There is none of a name, or fewer than two are left.
    """
    known = {variant.name for variant in variants}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            [f"--drafters: {unknown[0]} is not at hand; there are {', '.join(sorted(known))}"]
        )
    chosen = [variant for variant in variants if not names or variant.name in names]
    if len(chosen) < 2:
        raise ConfigError(["--drafters: two at least, to compare them"])
    return chosen


def _native(settings: EngineSettings, folder: Path | None) -> dict[str, JsonValue] | None:
    if settings.speculation.native is not None:
        return dict(settings.speculation.native.config)
    if folder is None:
        return None
    try:
        config = read_model_config(folder)
    except (OSError, ValueError) as exc:
        raise ConfigError([f"{folder}/config.json: {exc}"]) from exc
    layers = [config.get(key) for key in _MTP_KEYS]
    most = max((count for count in layers if isinstance(count, int)), default=0)
    return {"method": "mtp", "num_speculative_tokens": most} if most else None
