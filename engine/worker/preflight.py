"""Checks a profile as far as is possible in a second, without vllm, torch or a GPU.

It finds everything at once, so that a person does not start a worker once for each mistake. What it
cannot see, such as the memory of a GPU, it says.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from engine.config import EngineSettings, load_valid_settings, process_environment
from engine.errors import UntestedVersionError
from engine.models import (
    CATALOGUE,
    ModelConfig,
    find_model_folder,
    find_model_problems,
    read_model_config,
    shipped_head,
)
from engine.worker.options import find_parallel_problems
from engine.worker.versions import check_version, find_version
from engine.worker.vllm_options import (
    VllmOptions,
    find_option_problems,
    read_vllm_options,
    suggest,
)

_BYTES = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2, "auto": 2}
# Models whose cache is not one key and one value per token, layer and head.
_OTHER_CACHES = (
    "kv_lora_rank",
    "sliding_window",
    "layer_types",
    "text_config",
    "layers_block_type",
)


# Names in the config.json of models with state-space layers; vLLM knows them by their classes.
_STATE_SIZES = (
    "conv_L_cache",
    "linear_attn_config",
    "linear_num_key_heads",
    "mamba_d_ssm",
    "mamba_d_state",
    "ssm_state_size",
    "state_size",
)


@dataclass(frozen=True, slots=True)
class Preflight:
    """What a check found.

    Attributes:
        settings: The settings; where they were invalid, the defaults.
        problems: A line for each thing that keeps a worker from starting.
        notes: A line for each thing that was not checked, or looks odd.
    """

    settings: EngineSettings
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def check_profile(path: Path | None) -> Preflight:
    """Check the engine's section of a profile.

    Raises:
        ConfigError: The file cannot be read or is no profile.
    """
    settings, problems = load_valid_settings(path)
    known = read_vllm_options()
    notes = []
    found = find_version()
    if found is None:
        notes.append(f"vLLM is not installed; options are those of {known.version}")
    else:
        try:
            check_version(found)
        except UntestedVersionError as exc:
            problems.append(str(exc))
    problems += find_option_problems(known, settings.vllm)
    problems += _find_parser_problems(known, settings.vllm)
    problems += _find_drafter_problems(known, settings)
    folder = find_model_folder(settings)
    config: ModelConfig | None = None
    if folder is None:
        notes.append(
            f"engine.model: {settings.model} is taken for a Hugging Face id, not looked up"
        )
    elif settings.model in CATALOGUE and not folder.is_dir():
        notes.append(f"engine.model: {settings.model} is not downloaded yet, not checked")
    else:
        problems += (faults := find_model_problems(folder, settings))
        config = None if faults else read_model_config(folder)
    if config is not None:
        problems += _find_size_problems(config, settings)
        notes += _find_state_notes(config, settings)
    problems += find_parallel_problems(settings, config)
    problems += _find_head_problems(settings, config)
    notes += _find_odd_variables(known, settings)
    return Preflight(settings, tuple(problems), tuple(notes))


def _find_parser_problems(known: VllmOptions, options: Mapping[str, JsonValue]) -> Iterator[str]:
    for option, plugin, names in (
        ("tool_call_parser", "tool_parser_plugin", known.tool_parsers),
        ("reasoning_parser", "reasoning_parser_plugin", known.reasoning_parsers),
    ):
        chosen = options.get(option)
        if chosen and str(chosen) not in names and not options.get(plugin):
            near = suggest(str(chosen), names)
            listed = near or f"; known: {', '.join(sorted(names))}"
            yield f"engine.vllm.{option}: vLLM has no parser {json.dumps(chosen)}{listed}"
    if options.get("enable_auto_tool_choice") and not options.get("tool_call_parser"):
        yield "engine.vllm.enable_auto_tool_choice: needs tool_call_parser"
    if options.get("enable_log_outputs") and not options.get("enable_log_requests"):
        yield "engine.vllm.enable_log_outputs: needs enable_log_requests"


def _find_drafter_problems(known: VllmOptions, settings: EngineSettings) -> Iterator[str]:
    native = settings.speculation.native
    if native is None:
        return
    where = "engine.speculation.native.config"
    for name in native.config.keys() - known.speculative_config:
        yield f"{where}.{name}: vLLM has no such option{suggest(name, known.speculative_config)}"
    method = native.config.get("method")
    methods = {str(choice) for choice in known.options["spec_method"].choices}
    if method is not None and method not in methods:
        yield f"{where}.method: {json.dumps(method)} is unknown{suggest(str(method), methods)}"


def _find_size_problems(config: ModelConfig, settings: EngineSettings) -> Iterator[str]:
    options, environment = settings.vllm, {**settings.environment, **process_environment()}
    longest, asked = config.get("max_position_embeddings"), options.get("max_model_len")
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    is_scaled = isinstance(scaling, dict) and scaling.get("rope_type", "default") != "default"
    if (
        isinstance(longest, int)
        and isinstance(asked, int)
        and asked > longest
        and not is_scaled
        and not options.get("hf_overrides")
        and environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") != "1"
    ):
        yield f"engine.vllm.max_model_len: {asked} is more than the model's {longest}"
    heads, parts = config.get("num_attention_heads"), options.get("tensor_parallel_size", 1)
    if isinstance(heads, int) and isinstance(parts, int) and parts > 0 and heads % parts:
        yield (
            f"engine.vllm.tensor_parallel_size: {parts} does not divide the model's {heads} "
            "attention heads"
        )
    per_token = _cache_bytes(config, options)
    space = environment.get("VLLM_CPU_KVCACHE_SPACE")
    tokens = asked if isinstance(asked, int) and asked > 0 else longest
    if per_token is None or not isinstance(tokens, int) or space is None or not space.isdecimal():
        return
    available = int(space) * 2**30
    if available and per_token * tokens > available:
        yield (
            f"engine.vllm.max_model_len: a request of {tokens} tokens needs "
            f"{per_token * tokens / 2**30:.1f} GiB of cache; VLLM_CPU_KVCACHE_SPACE is {space}"
        )


def _cache_bytes(config: ModelConfig, options: Mapping[str, JsonValue]) -> int | None:
    """Bytes of a token's keys and values; None if the model keeps others."""
    if any(config.get(name) for name in _OTHER_CACHES):
        return None
    heads = config.get("num_attention_heads")
    layers, width = config.get("num_hidden_layers"), config.get("hidden_size")
    if not (isinstance(heads, int) and isinstance(layers, int) and isinstance(width, int)):
        return None
    shared = config.get("num_key_value_heads") or heads
    size = config.get("head_dim") or width // heads
    kind = str(options.get("kv_cache_dtype", "auto"))
    width_bytes = _BYTES.get(str(options.get("dtype", "auto")) if kind == "auto" else kind, 1)
    assert isinstance(shared, int)
    assert isinstance(size, int)
    return 2 * layers * shared * size * width_bytes


def _find_head_problems(settings: EngineSettings, model: ModelConfig | None) -> Iterator[str]:
    if "head" not in settings.speculation.sources:
        return
    where = "engine.speculation.head.path"
    folder = settings.speculation.head.path or shipped_head(settings.model)
    if folder is None and settings.speculation.head.watch is not None:
        return
    if folder is None:
        yield f"{where}: no head ships for {settings.model}; set its folder"
        return
    try:
        head = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        yield f"{where}: no draft head in {folder}: {exc}"
        return
    if model is None or not isinstance(head, dict):
        return
    for name in ("hidden_size", "vocab_size"):
        if name in head and name in model and head[name] != model[name]:
            yield f"{where}: made for a model with {name} {head[name]}, not {model[name]}"


def _find_state_notes(config: ModelConfig, settings: EngineSettings) -> Iterator[str]:
    """Say what a model with state-space layers needs: a state for each position of a draft."""
    text = config.get("text_config")
    names = text if isinstance(text, dict) else config
    if settings.speculation.sources and any(name in names for name in _STATE_SIZES):
        states = 1 + settings.speculation.max_draft_tokens
        yield (
            f"engine.speculation.max_draft_tokens: the model has state-space layers, for which "
            f"vLLM reserves {states} states a request instead of one; try 4 to 8"
        )


def _find_odd_variables(known: VllmOptions, settings: EngineSettings) -> Iterator[str]:
    for name in settings.environment:
        if name.startswith("VLLM_") and name not in known.variables:
            near = suggest(name, known.variables)
            yield f"engine.environment.{name}: vLLM {known.version} does not read it{near}"
