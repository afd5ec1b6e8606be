"""The engine's settings. No other file of the engine reads the process environment.

Precedence: environment (`SPECGATE_ENGINE__...`), then the `engine:` section of the YAML profile,
then the defaults here. The layers are merged before validation, so an unknown name is rejected
wherever it comes from.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

from engine.errors import ConfigError
from engine.policy import check_profile

ENVIRONMENT_PREFIX = "SPECGATE_ENGINE__"
_SECTIONS = frozenset({"gateway", "engine"})

# vLLM options that are derived from our own settings or that our accounting depends on.
RESERVED_VLLM_OPTIONS = frozenset({
    "additional_config", "api_key", "api_server_count", "config",
    "disable_log_stats", "disable_uvicorn_access_log", "enable_per_request_metrics",
    "enable_prompt_tokens_details", "enable_server_load_tracking", "headless", "host", "model",
    "model_tag", "per_request_spec_decode_metrics", "port", "scheduler_cls",
    "served_model_name", "speculative_config", "uds", "worker_cls",
})  # fmt: skip

# Set for every worker, whatever the profile says. Usage reports would leave the machine.
PINNED_ENVIRONMENT: Mapping[str, str] = {
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
# Defaults that the profile and the process environment override. oneDNN, vLLM's CPU matrix library,
# caches the code that it compiles for each number of tokens in a step: 270 kB apiece, up to 1,024
# of them by default. vLLM also keeps those of the latest 128 sizes.
USUAL_ENVIRONMENT: Mapping[str, str] = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64"}
RUNNER_VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
"""The variable that decides on vLLM's model runner in each of its processes."""
_ENVIRONMENT_FAMILIES = (
    "CUDA_", "GOMP_", "HF_", "KMP_", "NCCL_", "OMP_", "ONEDNN_", "TORCH", "VLLM_",
)  # fmt: skip
_EXACT_VERIFICATION = ("standard", "block")  # vLLM's others accept what the model would not sample
_KEY = "[key]"  # in the place of an error, pydantic's mark of a mapping's name
_SECRET_WORDS = ("KEY", "PASSWORD", "SECRET", "TOKEN")


def _check_vllm_option(name: str) -> str:
    name = name.replace("-", "_")
    if name in RESERVED_VLLM_OPTIONS:
        raise ValueError("set by the engine and not configurable")
    return name


def _check_variable(name: str) -> str:
    name = name.upper()
    if name in PINNED_ENVIRONMENT:
        raise ValueError("set by the engine and not configurable")
    if name == RUNNER_VARIABLE:
        raise ValueError("set by the engine: engine.runner chooses")
    if not name.startswith(_ENVIRONMENT_FAMILIES):
        families = ", ".join(f"{family}*" for family in _ENVIRONMENT_FAMILIES)
        raise ValueError(f"the name must begin with one of {families}")
    if any(word in name.split("_") for word in _SECRET_WORDS):
        raise ValueError("a secret: set it in the environment, not in a profile")
    return name


Curve = tuple[tuple[int, float], ...]
"""Points (x, y) of a rising curve; the first x is 1."""


def _check_curve(points: Curve) -> Curve:
    check_profile(points)
    return points


def _expand_user(path: Path | None) -> Path | None:
    return None if path is None else path.expanduser()


def _read_sources(value: object) -> object:
    # YAML 1.1 reads a bare `off` as false.
    return () if value is False or value == "off" else value


class SuffixSettings(BaseModel):
    """The suffix index of a model worker."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    capacity_mb: int = Field(
        default=256, ge=1, le=65536, description="Memory limit of the index, in MiB."
    )
    warm_start: bool = Field(
        default=True,
        description="Save finished answers (as token ids) to a file and load it at start.",
    )
    save_every_s: float = Field(
        default=300.0, gt=0, description="Seconds between two saves of that file."
    )
    share: str | None = Field(
        default=None,
        min_length=1,
        description="A place for copies of that file, from which workers of the same model start "
        "warm: a path, or a URL that fsspec knows (`file:///...`; `s3://...` with the package "
        "s3fs).",
    )
    share_every_s: float = Field(
        default=900.0, gt=0, description="Seconds between two copies to that place."
    )

    @model_validator(mode="after")
    def _check_share(self) -> Self:
        if self.share is not None and not self.warm_start:
            raise ValueError("share needs warm_start: copies are made of the file that it saves")
        return self


class NativeSettings(BaseModel):
    """A drafter that vLLM itself provides."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: dict[str, JsonValue] = Field(
        min_length=1,
        description="vLLM's `speculative_config`: method, model, num_speculative_tokens and so on.",
    )

    @model_validator(mode="after")
    def _check_length(self) -> Self:
        length = self.config.get("num_speculative_tokens")
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise ValueError("config needs num_speculative_tokens of at least 1")
        return self

    @model_validator(mode="after")
    def _check_verification(self) -> Self:
        method = self.config.get("rejection_sample_method", "standard")
        if method not in _EXACT_VERIFICATION:
            raise ValueError(f"rejection_sample_method {method} would change the model's output")
        return self

    @property
    def most(self) -> int:
        """Maximum number of tokens that it proposes in one step."""
        most = self.config["num_speculative_tokens"]
        assert isinstance(most, int)
        return most


class AdaptSettings(BaseModel):
    """Heads that learn from the traffic of tenants that agreed (docs/heads.md)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Annotated[Path, AfterValidator(Path.expanduser)] = Field(
        description="Folder for recorded traffic and trained heads, of this model alone."
    )
    max_mb: int = Field(
        default=1024,
        ge=64,
        description="Most recorded traffic on disk, in MiB; the oldest is deleted first. A token "
        "takes twice the model's hidden size in bytes.",
    )
    key_file: Annotated[Path | None, AfterValidator(_expand_user)] = Field(
        default=None,
        description="File with a key of 32 bytes with which recorded traffic is encrypted "
        "(AES-256-GCM); without one it is not.",
    )
    every_tokens: int = Field(
        default=20_000,
        ge=500,
        description="Recorded answer tokens from one training to the next.",
    )


class HeadSettings(BaseModel):
    """A specgate draft head (engine/heads)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Annotated[Path | None, AfterValidator(_expand_user)] = Field(
        default=None,
        description="Folder of the head; by default the one shipped for the model.",
    )
    watch: Annotated[Path | None, AfterValidator(_expand_user)] = Field(
        default=None,
        description="Folder of a head that is loaded without a restart whenever its files change "
        "(docs/heads.md). With it, a model for which no head ships starts without one.",
    )
    adapt: AdaptSettings | None = Field(
        default=None,
        description="Train the head on the traffic of tenants that agreed "
        "(`gateway.learn_from_tenants`), and swap the result in if it proves better.",
    )
    max_draft_tokens: int = Field(
        default=3, ge=1, le=16, description="Maximum tokens that the head proposes in one step."
    )
    pass_cost: Curve = Field(
        default=((1, 0.1), (16, 0.2)),
        description="Initial estimate of the time of one pass of the head, by number of sequences, "
        "used until passes are measured. Same unit as `step_cost`; without `step_cost`, relative "
        "to a step of one token.",
    )

    @model_validator(mode="after")
    def _check_adapt(self) -> Self:
        if self.adapt is not None and self.watch is not None:
            raise ValueError("watch and adapt exclude each other: adapt watches its own folder")
        return self

    @field_validator("pass_cost")
    @classmethod
    def _check_pass_cost(cls, points: Curve) -> Curve:
        return _check_curve(points)


class Speculation(BaseModel):
    """How the worker drafts tokens. Speculation does not change the output."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: Annotated[
        tuple[Literal["suffix", "head", "native"], ...], BeforeValidator(_read_sources)
    ] = Field(
        default=("suffix",),
        description="Where drafts come from: suffix (the suffix index), head (a draft head), "
        "native (one of vLLM's own drafters).",
    )
    max_draft_tokens: int = Field(
        default=32, ge=1, le=128, description="Maximum draft tokens per request and step."
    )
    max_batch_size: int | None = Field(
        default=None,
        ge=1,
        description="Largest batch (requests in a step) that still drafts; unlimited if unset.",
    )
    fixed_price: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Fixed survival threshold for drafts that replaces the gate's price; the head "
        "then always runs. For tests and measurements.",
    )
    launch: Literal["auto", "wait", "ahead"] = Field(
        default="auto",
        description="With async scheduling: whether a step waits for the tokens of the one before "
        "it, which gives the best drafts, or is launched ahead of them, which saves a pause. auto "
        "measures which brings more tokens per second. While draft heads are compared, steps wait.",
    )
    step_cost: Curve | None = Field(
        default=None,
        description="Initial estimate of a step's time, by number of tokens, used until steps are "
        "measured: points of a rising curve that starts at 1 token, in any unit. By default it is "
        "measured when the model is loaded, once per machine.",
    )
    suffix: SuffixSettings = Field(default_factory=SuffixSettings, description="The suffix index.")
    head: HeadSettings = Field(default_factory=HeadSettings, description="The draft head.")
    native: NativeSettings | None = Field(
        default=None, description="vLLM's own drafter, for the source native."
    )

    @model_validator(mode="before")
    @classmethod
    def _read_off(cls, value: object) -> object:
        # YAML 1.1 reads a bare `off` as false.
        return {"sources": ()} if value is False or value == "off" else value

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        if len(set(self.sources)) != len(self.sources):
            raise ValueError("sources lists a source twice")
        if ("native" in self.sources) != (self.native is not None):
            raise ValueError("the source native and the section native require each other")
        if self.head.adapt is not None and "head" not in self.sources:
            raise ValueError("head.adapt requires the source head")
        return self

    @field_validator("step_cost")
    @classmethod
    def _check_step_cost(cls, points: Curve | None) -> Curve | None:
        return None if points is None else _check_curve(points)


class EngineSettings(BaseModel):
    """The `engine:` section of a profile; frozen once loaded."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    model: str = Field(
        default="smollm2-135m",
        min_length=1,
        description="A catalogue name, a model folder, or a Hugging Face id.",
    )
    served_model_name: str | None = Field(
        default=None, min_length=1, description="Model name that clients use; by default `model`."
    )
    cache_dir: Annotated[Path, AfterValidator(Path.expanduser)] = Field(
        default=Path("~/.cache/specgate"),
        validate_default=True,
        description="Cache folder: models/ for converted models, suffix/ for saved suffix "
        "indexes, profiles/ for measured step times.",
    )
    host: str = Field(
        default="127.0.0.1", min_length=1, description="Address to listen on, unless `uds` is set."
    )
    port: int = Field(default=8001, ge=1, le=65535, description="TCP port to listen on.")
    uds: Path | None = Field(default=None, description="Unix socket to listen on instead of TCP.")
    vllm: dict[Annotated[str, AfterValidator(_check_vllm_option)], JsonValue] = Field(
        default_factory=dict,
        description="Options of vLLM's server, named like its flags with underscores. If `dtype` "
        "is not set, processors without fast bfloat16 arithmetic use float32 (adr/0028). "
        "`tool_strict_level` is `parameter` by default: the arguments of tool calls follow the "
        "tool's schema where vLLM has a grammar for the tool parser; with `auto` only those of "
        "`strict` tools do.",
    )
    environment: dict[Annotated[str, AfterValidator(_check_variable)], str] = Field(
        default_factory=dict,
        description="Environment variables for vLLM; the process's own environment wins.",
    )
    cpu_kernels: bool = Field(
        default=True,
        description="On CPUs, compute linear layers and attention with our own kernels, and all "
        "layers of known models in one call (adr/0032): extra tokens in a step cost little, and "
        "results are batch-invariant (docs/exactness.md). "
        "If off, vLLM's compute, for comparison. Without effect on GPUs.",
    )
    runner: Literal["auto", "v1", "v2"] = Field(
        default="auto",
        description="vLLM's model runner. `auto` takes V2 where vLLM would, which is on GPUs, and "
        "V1 on CPUs. V1 is deprecated in vLLM (adr/0034).",
    )
    speculation: Speculation = Field(
        default_factory=Speculation, description="Speculative decoding."
    )


def load_settings(
    path: Path | None,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, JsonValue] | None = None,
) -> EngineSettings:
    """Read the engine's settings.

    Args:
        path: The YAML profile; None means the defaults.
        environ: Variables to read instead of the process environment.
        overrides: Settings from the command line; they win over everything else.

    Raises:
        ConfigError: The file cannot be read, or some layer has an unknown name or invalid value.
    """
    try:
        return EngineSettings.model_validate(_merge(path, environ, overrides or {}))
    except ValidationError as exc:
        raise ConfigError([_describe(error) for error in exc.errors()]) from exc


def load_valid_settings(path: Path | None) -> tuple[EngineSettings, list[str]]:
    """Read the engine's settings, with the default in place of each one that is invalid.

    So a check can go on with the others.

    Returns:
        The settings, and a line for each problem.

    Raises:
        ConfigError: The file cannot be read or is no profile, or a variable has an unknown name.
    """
    merged = _merge(path, None, {})
    problems: list[str] = []
    while True:
        try:
            return EngineSettings.model_validate(merged), problems
        except ValidationError as exc:
            errors = exc.errors()
        # Later ones may only be due to what was left out.
        problems = problems or [_describe(error) for error in errors]
        for error in errors:
            merged = _without(merged, [str(part) for part in error["loc"]])


def process_environment() -> Mapping[str, str]:
    """Return a copy of this process's environment."""
    return dict(os.environ)


def export_environment(variables: Mapping[str, str], *, forced: Mapping[str, str]) -> None:
    """Set environment variables for this process and for children that it starts later.

    Args:
        variables: Set only if the process has no value yet.
        forced: Set in any case.
    """
    for name, value in variables.items():
        os.environ.setdefault(name, value)
    os.environ.update(forced)


def _merge(
    path: Path | None, environ: Mapping[str, str] | None, overrides: Mapping[str, JsonValue]
) -> dict[str, Any]:
    variables = os.environ if environ is None else environ
    merged = _default_cache(variables)
    for layer in (_read_section(path), _read_variables(variables), overrides):
        merged = _overlay(merged, layer)
    return merged


def _without(settings: Mapping[str, Any], where: Sequence[str]) -> dict[str, Any]:
    """Leave out the setting in which pydantic found an error, as deep as there are names."""
    name, *below = where
    left = dict(settings)
    inner = left.get(name)
    if below and isinstance(inner, dict) and below[0] in inner:
        left[name] = _without(inner, below)
    else:
        left.pop(name, None)
    return left


def _default_cache(variables: Mapping[str, str]) -> dict[str, Any]:
    root = variables.get("XDG_CACHE_HOME")
    return {"cache_dir": f"{root}/specgate"} if root else {}


def _read_section(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError([f"{path}: cannot be read: {exc}"]) from exc
    except yaml.YAMLError as exc:
        raise ConfigError([f"{path}: invalid YAML: {' '.join(str(exc).split())}"]) from exc
    if not isinstance(document, dict):
        raise ConfigError([f"{path}: expected the sections gateway: and engine:"])
    if unknown := sorted(str(name) for name in document.keys() - _SECTIONS):
        raise ConfigError([f"{path}: unknown section {name}" for name in unknown])
    section = document.get("engine") or {}
    if not isinstance(section, dict):
        raise ConfigError([f"{path}: engine: must be a mapping"])
    return section


def _read_variables(variables: Mapping[str, str]) -> dict[str, Any]:
    """Turn `SPECGATE_ENGINE__A__B=v` into `{a: {b: v}}`; `v` is parsed as YAML."""
    section: dict[str, Any] = {}
    stem = ENVIRONMENT_PREFIX.rstrip("_")
    for name in sorted(name for name in variables if name.startswith(stem)):
        keys = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        if not name.startswith(ENVIRONMENT_PREFIX) or not all(keys):
            raise ConfigError([f"{name}: unknown variable; names begin with {ENVIRONMENT_PREFIX}"])
        try:
            value: Any = yaml.safe_load(variables[name])
        except yaml.YAMLError as exc:
            raise ConfigError([f"{name}: the value is not valid YAML"]) from exc
        for key in reversed(keys):
            value = {key: value}
        section = _overlay(section, value)
    return section


def _overlay(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = _overlay(below, value)
        else:
            merged[key] = value
    return merged


def _describe(error: Mapping[str, Any]) -> str:
    parts = (str(part) for part in error["loc"] if part != _KEY)
    where = ".".join(("engine", *parts))
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown setting"
    return f"{where}: {error['msg'].removeprefix('Value error, ')}"
