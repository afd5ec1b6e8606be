"""Which of vLLM's two model runners a worker uses, and why; does not import vllm."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from engine.config import RUNNER_VARIABLE, EngineSettings
from engine.errors import ConfigError

_V1_METHODS = ("medusa", "mlp_speculator", "suffix")
"""Drafters of vLLM that its V2 runner does not have."""


class Choice(NamedTuple):
    """A model runner.

    Attributes:
        runner: `v1` or `v2`.
        reason: Why, in a few words.
    """

    runner: Literal["v1", "v2"]
    reason: str

    def environment(self) -> dict[str, str]:
        """Return the variable that tells vLLM."""
        return {RUNNER_VARIABLE: "1" if self.runner == "v2" else "0"}


def choose_runner(settings: EngineSettings, *, has_triton: bool) -> Choice:
    """Choose as vLLM would, had it none of our drafters.

    Args:
        settings: The engine's settings.
        has_triton: Whether vLLM has found a Triton for this device, which V2 needs.

    Raises:
        ConfigError: `engine.runner` is `v2`, which cannot run here or lacks something that is set.
    """
    lacks = list(_find_lacks(settings, has_triton=has_triton))
    if settings.runner == "v2" and lacks:
        raise ConfigError([f"engine.runner: v2 {lack}; use auto or v1" for lack in lacks])
    if settings.runner != "auto":
        return Choice(settings.runner, "as engine.runner says")
    if lacks:
        return Choice("v1", f"V2 {lacks[0]}")
    return Choice("v2", "vLLM's default where there is a Triton")


def _find_lacks(settings: EngineSettings, *, has_triton: bool) -> Iterator[str]:
    if not has_triton:
        yield "needs a Triton for this device"
    native = settings.speculation.native
    config = {} if native is None else native.config
    if config.get("method") in _V1_METHODS:
        yield f"has no drafter {config['method']}"
    if config.get("parallel_drafting") and config.get("method") not in ("dflash", "dspark"):
        yield "does not draft in parallel"
    if config.get("use_heterogeneous_vocab"):
        yield "has no drafters with another vocabulary"
    if settings.vllm.get("enable_dbo"):
        yield "does not overlap two batches in every case (enable_dbo)"
