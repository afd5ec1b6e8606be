"""Describes the options of the installed vLLM, for a check that cannot wait for its import."""

import argparse
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import vllm.config
from annotated_types import Ge, Gt, Le, Lt
from vllm import envs
from vllm.config import SpeculativeConfig
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager
from vllm.utils.argparse_utils import FlexibleArgumentParser

from engine.worker.moved import make_arg_parser
from engine.worker.versions import find_version

# vLLM wraps the functions that read an option's text in these.
_WRAPPERS = frozenset({"optional_type.<locals>._optional_type", "parse_type.<locals>._parse_type"})
_KINDS = {
    "DeprecatedLogConfigFileAction": "text",
    "_StoreTrueAction": "flag",
    "BooleanOptionalAction": "switch",
    "_compute_kwargs.<locals>.parse_dataclass": "section",
    "float": "number",
    "human_readable_int": "size",
    "human_readable_int_or_auto": "size",
    "int": "integer",
    "loads": "json",
    "union_dict_and_str": "json or text",
}
# Their fields are options; other configurations are the value of an option.
_FLAT = (
    "Cache", "Load", "LoRA", "Model", "MultiModal", "Observability", "Parallel",
    "PrefetchOffload", "Scheduler", "UVAOffload", "Vllm",
)  # fmt: skip


def describe_vllm() -> str:
    """Return the installed vLLM's options and the names that they accept, as JSON."""
    parser = make_arg_parser(FlexibleArgumentParser(prog="engine"))
    bounds = dict(_bounds())
    options = {
        flag.removeprefix("--").replace("-", "_"): _describe(action, bounds)
        for action in parser._actions
        for flag in action.option_strings
        if flag.startswith("--") and not isinstance(action, argparse._HelpAction)
        if not flag.startswith("--no-") or action.option_strings[0] == flag
    }
    facts = {
        "version": find_version(),
        "tool_parsers": sorted(ToolParserManager.list_registered()),
        "reasoning_parsers": sorted(ReasoningParserManager.list_registered()),
        "speculative_config": _fields(SpeculativeConfig),
        "variables": sorted(name for name in envs.environment_variables if name[:5] == "VLLM_"),
        "options": {name: options[name] for name in sorted(options)},
    }
    return _with_a_line_for_each(facts)


def _describe(action: argparse.Action, bounds: dict[str, dict[str, float]]) -> dict[str, Any]:
    reader = _unwrap(action.type)
    name = type(action).__name__
    kind = _KINDS.get(name) or _KINDS.get(getattr(reader, "__qualname__", ""), "text")
    # The functions without a name accept other spellings of the same choices.
    choices = [] if "lambda" in str(reader) else action.choices or []
    facts = {
        "kind": kind,
        "many": action.nargs in ("+", "*") or name == "_AppendAction",
        "bare": action.nargs == "?",
        "choices": [choice for choice in choices if choice is not None],
        "fields": _fields(reader.__defaults__[0]) if kind == "section" else [],
        **bounds.get(action.dest, {}),
    }
    return {key: value for key, value in facts.items() if value is not False and value != []}


def _unwrap(reader: Any) -> Any:
    while getattr(reader, "__qualname__", "") in _WRAPPERS:
        reader = reader.__closure__[0].cell_contents
    return reader


def _fields(cls: type[Any]) -> list[str]:
    return sorted(field.name for field in dataclasses.fields(cls) if field.init)


def _bounds() -> Iterator[tuple[str, dict[str, float]]]:
    marks = {Ge: "at_least", Gt: "more_than", Le: "at_most", Lt: "less_than"}
    for prefix in _FLAT:
        cls: Any = getattr(vllm.config, f"{prefix}Config")
        for name, field in cls.__pydantic_fields__.items():
            found = {
                marks[type(mark)]: getattr(mark, type(mark).__name__.lower())
                for mark in field.metadata
                if type(mark) in marks
            }
            if found:
                yield name, found


def _with_a_line_for_each(facts: dict[str, Any]) -> str:
    options = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(of)}" for name, of in facts["options"].items()
    )
    others = "".join(
        f"  {json.dumps(name)}: {json.dumps(value)},\n"
        for name, value in facts.items()
        if name != "options"
    )
    return f'{{\n{others}  "options": {{\n{options}\n  }}\n}}\n'
