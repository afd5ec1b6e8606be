"""Turns our settings into the options of vLLM's server; pure, so it needs no vllm to be read."""

import json
import re
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from engine.config import EngineSettings, Speculation
from engine.errors import ConfigError
from engine.models import ResolvedModel, shipped_head

# What the gateway's accounting stands on: times per request, cached prompt tokens, and the number
# of requests in flight. The access line is the gateway's.
_ALWAYS: Mapping[str, JsonValue] = {
    "disable_uvicorn_access_log": True,
    "enable_per_request_metrics": True,
    "enable_prompt_tokens_details": True,
    "enable_server_load_tracking": True,
}

# Unless a profile says otherwise. With vLLM's 0 it kills its engine at once on SIGTERM; so it may
# finish what runs, and the suffix index is saved.
_DEFAULTS: Mapping[str, JsonValue] = {"shutdown_timeout": 15}


# The same where products of bfloat16 are slow (docs/adr/0027, 0028).
_WITHOUT_BFLOAT16: Mapping[str, JsonValue] = {"dtype": "float32"}


def build_options(
    settings: EngineSettings, model: ResolvedModel, *, has_bfloat16: bool
) -> dict[str, JsonValue]:
    """Return vLLM's options by name; the profile's own and ours never share one.

    Args:
        settings: The profile's.
        model: Whose weights to serve.
        has_bfloat16: Whether what the model runs on is good at products of bfloat16.
    """
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
    return options | _speculation_options(settings, model)


def to_arguments(options: Mapping[str, JsonValue]) -> list[str]:
    """Write options as command-line arguments.

    True and False become `--name` and `--no-name`, a list its items, a mapping JSON; an option
    that is None is left to vLLM's default.
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


def _speculation_options(settings: EngineSettings, model: ResolvedModel) -> dict[str, JsonValue]:
    speculation = settings.speculation
    if not speculation.sources:
        # vLLM refuses to count acceptance where nothing is drafted.
        return {"worker_cls": "engine.worker.worker.PlainWorker"}
    snapshot = None
    if "suffix" in speculation.sources and speculation.suffix.warm_start:
        name = re.sub(r"[^\w.-]+", "-", model.served_name)
        snapshot = str(settings.cache_dir / "suffix" / name)
    ours: dict[str, JsonValue] = {
        "speculation": speculation.model_dump(mode="json"),
        "snapshot": snapshot,
        "profiles": str(settings.cache_dir / "profiles"),
        "head": _head_folder(settings),
    }
    return {
        "additional_config": {"specgate": ours},
        # Ours are lists made after a step; vLLM's asynchronous scheduler wants tensors before it.
        "async_scheduling": False,
        "per_request_spec_decode_metrics": "detailed",
        "scheduler_cls": "engine.worker.scheduler.HybridScheduler",
        "speculative_config": _vllm_drafter(speculation),
        "worker_cls": "engine.worker.worker.HybridWorker",
    }


def _head_folder(settings: EngineSettings) -> str | None:
    if "head" not in settings.speculation.sources:
        return None
    folder = settings.speculation.head.path or shipped_head(settings.model)
    if folder is None:
        raise ConfigError(
            [f"engine.speculation.head.path: no head ships for {settings.model}; give its folder"]
        )
    return str(folder)


def _vllm_drafter(speculation: Speculation) -> dict[str, JsonValue]:
    if speculation.native is not None:
        # Room for the longest draft of any source. How many tokens vLLM's drafter proposes in a
        # step is said by our scheduler.
        ours = speculation.max_draft_tokens if speculation.sources != ("native",) else 0
        longest = max(speculation.native.most, ours)
        return {**speculation.native.config, "num_speculative_tokens": longest}
    return {
        "method": "custom_class",
        "model": "engine.worker.proposer.NoDrafts",
        "num_speculative_tokens": speculation.max_draft_tokens,
    }
