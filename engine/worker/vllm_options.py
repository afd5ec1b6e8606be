"""Checks vLLM's options against the table of the tested version, without importing vllm.

Importing it takes many seconds, and it is not installed everywhere. `vllm_options.json` is written
from vLLM's own parser (describe.py).
"""

import difflib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

_TABLE = Path(__file__).with_suffix(".json")
# 4096, 16k and 1.5M are sizes; -1 and auto let vLLM choose.
_SIZE = re.compile(r"-?\d+|\d+(\.\d+)?[kmgtKMGT]|auto")
_EXPECTED = {
    "flag": "true",
    "integer": "an integer",
    "json": "JSON",
    "number": "a number",
    "section": "a mapping",
    "size": "a number of tokens or bytes, such as 16384 or 16k",
    "switch": "true or false",
}


class Option(BaseModel):
    """An option of vLLM, as its parser reads it.

    Attributes:
        kind: What values it takes. A flag cannot be false.
        many: Whether it takes a list.
        bare: Whether true stands for an option without a value.
        choices: The values that it takes, if they are few.
        fields: Names in the mapping that it takes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal[
        "flag", "integer", "json", "json or text", "number", "section", "size", "switch", "text"
    ]
    many: bool = False
    bare: bool = False
    choices: tuple[JsonValue, ...] = ()
    fields: tuple[str, ...] = ()
    at_least: float | None = None
    more_than: float | None = None
    at_most: float | None = None
    less_than: float | None = None


class VllmOptions(BaseModel):
    """What the tested version of vLLM accepts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    tool_parsers: frozenset[str]
    reasoning_parsers: frozenset[str]
    speculative_config: frozenset[str]
    variables: frozenset[str]
    options: Mapping[str, Option]


def read_vllm_options() -> VllmOptions:
    """Read the table."""
    return VllmOptions.model_validate_json(_TABLE.read_bytes())


def find_option_problems(known: VllmOptions, options: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield a line for each option that vLLM would refuse, as far as its parser knows.

    Args:
        known: The table.
        options: Values by name, with underscores; None leaves an option out.
    """
    for name, value in options.items():
        if value is None:
            continue
        problem = _check(known.options, name, value)
        if problem is not None:
            yield f"engine.vllm.{name}: {problem}"


def suggest(name: str, known: Collection[str]) -> str:
    """Return what to add to "there is no such name": the nearest one, or nothing."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else ""


def _check(options: Mapping[str, Option], name: str, value: JsonValue) -> str | None:
    positive = options.get(name.removeprefix("no_"))
    if name not in options and positive is not None and positive.kind == "switch":
        return None if value is True else "expected true"
    base, dot, _ = name.partition(".")  # a field of a mapping: compilation_config.mode
    option = options.get(base)
    if option is None:
        return f"vLLM has no such option{suggest(base, options)}"
    if dot:
        return None
    if isinstance(value, list):
        return _check_list(option, value)
    return _check_value(option, value)


def _check_list(option: Option, values: list[JsonValue]) -> str | None:
    if not option.many:
        return f"expected {_expected(option)}, found a list"
    return next((found for value in values if (found := _check_value(option, value))), None)


def _check_value(option: Option, value: JsonValue) -> str | None:
    if not _is_readable(option, value):
        return f"expected {_expected(option)}, found {json.dumps(value)}"
    if option.choices and str(value) not in {str(choice) for choice in option.choices}:
        near = suggest(str(value), {str(choice) for choice in option.choices})
        known = ", ".join(str(choice) for choice in option.choices)
        return f"{json.dumps(value)} is unknown{near or f'; known: {known}'}"
    if option.kind == "section" and isinstance(value, dict):
        unknown = sorted(value.keys() - set(option.fields))
        return f"unknown fields: {', '.join(unknown)}" if unknown else None
    return None if _is_within(option, value) else f"expected {_expected(option)}, found {value}"


def _is_readable(option: Option, value: JsonValue) -> bool:
    if isinstance(value, bool):
        return option.kind == "switch" or (value and (option.bare or option.kind == "flag"))
    match option.kind:
        case "flag" | "switch":
            return False
        case "section" | "json":
            return isinstance(value, dict) or _is_json(value, mapping=option.kind == "section")
        case "integer":
            return re.fullmatch(r"[+-]?\d+", str(value).strip()) is not None
        case "size":
            return _SIZE.fullmatch(str(value)) is not None
        case "number":
            return _number(value) is not None
    return option.kind == "json or text" or not isinstance(value, dict)


def _is_json(text: JsonValue, *, mapping: bool) -> bool:
    try:
        found = json.loads(text if isinstance(text, str) else json.dumps(text))
    except ValueError:
        return False
    return isinstance(found, dict) or not mapping


def _is_within(option: Option, value: JsonValue) -> bool:
    number = _number(value)
    return number is None or (
        (option.at_least is None or number >= option.at_least)
        and (option.more_than is None or number > option.more_than)
        and (option.at_most is None or number <= option.at_most)
        and (option.less_than is None or number < option.less_than)
    )


def _number(value: JsonValue) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def _expected(option: Option) -> str:
    bounds = (
        ("at least", option.at_least),
        ("more than", option.more_than),
        ("at most", option.at_most),
        ("less than", option.less_than),
    )
    kind = _EXPECTED.get(option.kind, "text")
    limits = " and ".join(f"{words} {limit:g}" for words, limit in bounds if limit is not None)
    return f"{kind} of {limits}" if limits else kind
