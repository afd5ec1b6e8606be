"""Turns our settings into the options of vLLM's server; does not import vllm."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import fsspec
from pydantic import JsonValue

from engine.config import EngineSettings, Speculation
from engine.errors import ConfigError
from engine.models import ModelConfig, ResolvedModel, shipped_head

# The gateway's accounting needs these: times per request, cached prompt tokens, requests in flight.
# The gateway writes the access log.
_ALWAYS: Mapping[str, JsonValue] = {
    "disable_uvicorn_access_log": True,
    "enable_per_request_metrics": True,
    "enable_prompt_tokens_details": True,
    "enable_server_load_tracking": True,
}

# Defaults that a profile can override.
_DEFAULTS: Mapping[str, JsonValue] = {
    # With vLLM's own default, 0, it kills its engine at once on SIGTERM. A timeout lets running
    # requests finish and the suffix index be saved.
    "shutdown_timeout": 15,
    # The arguments of a call follow the tool's schema, as clients expect, even if the tool does not
    # say `strict`. Tool parsers for which vLLM has no grammar ignore it.
    "tool_strict_level": "parameter",
}


# A further default where bfloat16 products are slow (docs/adr/0027, 0028).
_WITHOUT_BFLOAT16: Mapping[str, JsonValue] = {"dtype": "float32"}


def build_options(
    settings: EngineSettings, model: ResolvedModel, *, has_bfloat16: bool, is_v2: bool
) -> dict[str, JsonValue]:
    """Return vLLM's options by name; a profile cannot set the options that we set.

    Args:
        settings: The engine's settings.
        model: The model to serve.
        has_bfloat16: Whether bfloat16 products are fast on this device.
        is_v2: Whether the worker runs on vLLM's V2 model runner.

    Raises:
        ConfigError: The source `head` is on, but no head is given or ships for the model; or the
            model runs in pipeline stages.
    """
    problems = find_parallel_problems(settings, None)
    if settings.speculation.sources and settings.vllm.get("async_scheduling") and not is_v2:
        problems.append(
            "engine.vllm.async_scheduling: speculation needs vLLM's V2 model runner for it; leave "
            "it out, or set engine.runner to v2"
        )
    share = settings.speculation.suffix.share
    if share is not None:
        try:
            fsspec.get_filesystem_class(fsspec.utils.get_protocol(share))
        except (ImportError, ValueError) as exc:
            problems.append(f"engine.speculation.suffix.share: {exc}")
    if problems:
        raise ConfigError(problems)
    options: dict[str, JsonValue] = {
        **_DEFAULTS,
        **({} if has_bfloat16 else _WITHOUT_BFLOAT16),
        **settings.vllm,
        **_ALWAYS,
        "model": model.source,
        "served_model_name": model.served_name,
    }
    if settings.uds is None:
        options |= {"host": settings.host, "port": settings.port}
    else:
        options["uds"] = str(settings.uds)
    return options | _speculation_options(settings, model, is_v2=is_v2)


def _scheduling(settings: EngineSettings, *, is_v2: bool) -> dict[str, JsonValue]:
    """Return vLLM's option for async scheduling where its default does not work with our drafts."""
    # On V1 we draft after a step, and vLLM's async scheduler needs drafts before it. Engines that
    # compute together would make a dummy step for each one that waits for its tokens.
    if not is_v2 or _count(settings.vllm, "data_parallel_size") > 1:
        return {"async_scheduling": False}
    return {}


def _is_async(settings: EngineSettings, *, is_v2: bool) -> bool:
    """Tell whether vLLM schedules asynchronously, which is its default where it can."""
    options = {**settings.vllm, **_scheduling(settings, is_v2=is_v2)}
    return options.get("async_scheduling") is not False


NATIVE_IN_STEP = (
    "engine.vllm.data_parallel_size: the source native drafts a number of tokens that each engine "
    "chooses, and the engines of a model with experts would wait for each other for ever; set it "
    "to 1, or use the sources suffix and head"
)


def find_parallel_problems(settings: EngineSettings, model: ModelConfig | None) -> list[str]:
    """Return a line for each kind of parallelism that the sources of drafts do not support.

    Args:
        settings: The engine's settings.
        model: The model's config.json; None if unknown, which the engine then checks at its start.
    """
    speculation, problems = settings.speculation, []
    if speculation.sources and _count(settings.vllm, "pipeline_parallel_size") > 1:
        problems.append(
            "engine.vllm.pipeline_parallel_size: speculation does not support pipeline stages: "
            "vLLM schedules a step's drafts before the last stage has sampled the token before "
            "them; set it to 1, or engine.speculation.sources to off"
        )
    if (
        speculation.native is not None
        and str(speculation.native.config.get("method")) not in _WITHOUT_CACHE
        and _count(settings.vllm, "data_parallel_size") > 1
        and _has_experts(model or {})
    ):
        problems.append(NATIVE_IN_STEP)
    return problems


_WITHOUT_CACHE = ("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator", "custom_class")
"""Methods of vLLM that propose without a model's KV cache, so that engines need not agree."""


def _has_experts(model: ModelConfig) -> bool:
    """Tell whether vLLM takes a model for a mixture of experts; the names are vLLM's."""
    text = model.get("text_config")
    names = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
    return any((text if isinstance(text, dict) else model).get(name) for name in names)


def _count(options: Mapping[str, JsonValue], name: str) -> int:
    value = str(options.get(name) or 1)
    return int(value) if value.isdecimal() else 1


def to_arguments(options: Mapping[str, JsonValue]) -> list[str]:
    """Write options as command-line arguments.

    True and False become `--name` and `--no-name`, a list becomes its items, a mapping JSON. An
    option that is None is omitted.
    """
    arguments: list[str] = []
    for name, value in options.items():
        arguments += _to_argument(name.replace("_", "-"), value)
    return arguments


def _to_argument(flag: str, value: JsonValue) -> Sequence[str]:
    match value:
        case None:
            return ()
        case True:
            return (f"--{flag}",)
        case False:
            return (f"--no-{flag}",)
        case list():
            return (f"--{flag}", *(_to_text(item) for item in value))
    return (f"--{flag}={_to_text(value)}",)


def _to_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _speculation_options(
    settings: EngineSettings, model: ResolvedModel, *, is_v2: bool
) -> dict[str, JsonValue]:
    speculation = settings.speculation
    plain: dict[str, JsonValue] = {"cpu_kernels": settings.cpu_kernels}
    extracting = _extracting(speculation)
    if not speculation.sources or extracting:
        # vLLM rejects acceptance metrics without a drafter.
        return {
            "additional_config": {"specgate": plain},
            "worker_cls": "engine.worker.worker.PlainWorker",
            **(extracting or {"scheduler_cls": "engine.worker.resume.ResumingScheduler"}),
        }
    snapshot = None
    if "suffix" in speculation.sources and speculation.suffix.warm_start:
        snapshot = str(settings.cache_dir / "suffix" / _file_name(model.served_name))
    ours: dict[str, JsonValue] = {
        **plain,
        "speculation": speculation.model_dump(mode="json"),
        "snapshot": snapshot,
        "profiles": str(settings.cache_dir / "profiles"),
        "head": _head_folder(settings, is_async=_is_async(settings, is_v2=is_v2)),
    }
    return {
        "additional_config": {"specgate": ours},
        **_scheduling(settings, is_v2=is_v2),
        "per_request_spec_decode_metrics": "detailed",
        "scheduler_cls": "engine.worker.scheduler.HybridScheduler",
        "speculative_config": _vllm_drafter(speculation, is_v2=is_v2),
        "worker_cls": "engine.worker.worker.HybridWorker",
    }


def _extracting(speculation: Speculation) -> dict[str, JsonValue]:
    """Return vLLM's options for a worker that writes hidden states instead of drafting.

    Training starts one (`engine.training.native`); its "drafter" keeps states of all tokens, so
    ours must not choose for which steps it runs.
    """
    native = speculation.native
    if native is None or native.config.get("method") != "extract_hidden_states":
        return {}
    return {"speculative_config": native.config}


def _file_name(name: str) -> str:
    """Return a file name that people recognise and that no other name has."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)[-100:]}-{digest[:16]}"


NEVER_AHEAD = (
    "a head that looks back (its config.json has a window) drafts only in steps that wait; use "
    "auto or wait, or a head without a window"
)


def _looks_back(head: Path) -> bool:
    """Tell whether a head has a window; of a folder that holds no head, the worker will say so."""
    try:
        config = json.loads((head / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and bool(config.get("window"))


def _head_folder(settings: EngineSettings, *, is_async: bool) -> str | None:
    if "head" not in settings.speculation.sources:
        return None
    folder = settings.speculation.head.path or shipped_head(settings.model)
    if folder is not None:
        if is_async and settings.speculation.launch == "ahead" and _looks_back(folder):
            raise ConfigError([f"engine.speculation.launch: ahead, but {NEVER_AHEAD}: {folder}"])
        return str(folder)
    if settings.speculation.head.watch is not None:
        return None
    raise ConfigError(
        [f"engine.speculation.head.path: no head ships for {settings.model}; set its folder"]
    )


def _vllm_drafter(speculation: Speculation, *, is_v2: bool) -> dict[str, JsonValue]:
    if speculation.native is not None:
        # Room for the longest draft of any source. Our scheduler decides for each step how many
        # tokens vLLM's drafter proposes.
        ours = speculation.max_draft_tokens if speculation.sources != ("native",) else 0
        longest = max(speculation.native.most, ours)
        return {**speculation.native.config, "num_speculative_tokens": longest}
    if is_v2:
        # A drafter that vLLM accepts there; our runner puts its own in the place.
        return {"method": "ngram_gpu", "num_speculative_tokens": speculation.max_draft_tokens}
    return {
        "method": "custom_class",
        "model": "engine.worker.v1.runner.NoDrafts",
        "num_speculative_tokens": speculation.max_draft_tokens,
    }
