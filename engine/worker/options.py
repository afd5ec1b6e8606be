"""Turns our settings into the options of vLLM's server; pure, so it needs no vllm to be read."""

import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from engine.config import EngineSettings, Speculation
from engine.models import ResolvedModel

# What the gateway's accounting stands on: times per request, cached prompt tokens, and the number
# of requests in flight. The access line is the gateway's.
_ALWAYS: Mapping[str, JsonValue] = {
    "disable_uvicorn_access_log": True,
    "enable_per_request_metrics": True,
    "enable_prompt_tokens_details": True,
    "enable_server_load_tracking": True,
}


def build_options(settings: EngineSettings, model: ResolvedModel) -> dict[str, JsonValue]:
    """Return vLLM's options by name; the profile's own and ours never share one."""
    options: dict[str, JsonValue] = {
        **settings.vllm,
        **_ALWAYS,
        "model": model.source,
        "served_model_name": model.served_name,
    }
    if settings.uds is None:
        options |= {"host": settings.host, "port": settings.port}
    else:
        options["uds"] = str(settings.uds)
    return options | _speculation_options(settings.speculation)


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


def _speculation_options(speculation: Speculation) -> dict[str, JsonValue]:
    if speculation.method == "off":
        # vLLM refuses to count acceptance where nothing is drafted.
        return {}
    return {
        "per_request_spec_decode_metrics": "detailed",
        "speculative_config": {
            "method": speculation.method,
            "num_speculative_tokens": speculation.num_speculative_tokens,
            "prompt_lookup_min": speculation.prompt_lookup_min,
            "prompt_lookup_max": speculation.prompt_lookup_max,
        },
    }
