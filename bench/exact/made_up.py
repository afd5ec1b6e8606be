"""Prompts of every kind that are made up from templates and words (templates.yaml)."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import yaml

from gateway.verify import KINDS

Body = dict[str, Any]
Maker = Callable[[Random], Body]

_TEMPLATES: Mapping[str, Any] = yaml.safe_load(
    Path(__file__).with_name("templates.yaml").read_text(encoding="utf-8")
)
_WORDS: Mapping[str, Sequence[str]] = _TEMPLATES["words"]
_ROWS = (30, 60)
_LEAST_FIELDS, _MOST_FIELDS = 2, 4
_TOOLS = 3
_MOST_REPEATS = 1000
"""So many in a row mean that there is nothing new."""


def made_up(kind: str, seed: int) -> Iterator[Body]:
    """Yield bodies of chat completions, no two the same, until the templates have no more.

    Args:
        kind: One of `gateway.verify.KINDS`.
        seed: The same prompts come from the same seed.
    """
    assert kind in KINDS
    source = Random(f"{seed} {kind}")
    make: Maker = _MAKERS.get(kind, partial(_plain, kind))
    seen: set[str] = set()
    repeats = 0
    while repeats < _MOST_REPEATS:
        body = make(source)
        said = json.dumps(body)
        repeats = repeats + 1 if said in seen else 0
        if not repeats:
            seen.add(said)
            yield body


class _Words(dict[str, str]):
    """Draws a word for each name in a template, and keeps it for the whole prompt."""

    def __init__(self, source: Random) -> None:
        super().__init__()
        self._source = source

    def __missing__(self, name: str) -> str:
        self[name] = self._source.choice(_WORDS[name.rstrip("234")])
        return self[name]


def _plain(kind: str, source: Random) -> Body:
    """A prompt of which only the text is special, and its stop strings."""
    words = _Words(source)
    template = source.choice(_TEMPLATES[kind])
    if isinstance(template, str):
        return _asking(template.format_map(words))
    if isinstance(template, list):  # several messages
        said = [(role, text) for message in template for role, text in message.items()]
        return {
            "messages": [{"role": role, "content": text.format_map(words)} for role, text in said]
        }
    body = _asking(template["user"].format_map(words))
    return {**body, "stop": [stop.format_map(words) for stop in template["stop"]]}


def _grammar(source: Random) -> Body:
    words = _Words(source)
    asked, grammar = (text.format_map(words) for text in source.choice(_TEMPLATES["grammar"]))
    return {**_asking(asked), "structured_outputs": {"grammar": grammar}}


def _json_schema(source: Random) -> Body:
    known: Mapping[str, Any] = _TEMPLATES["json_schema"]["fields"]
    names = source.sample(list(known), source.randint(_LEAST_FIELDS, _MOST_FIELDS))
    schema = {"name": "answer", "schema": _object({name: known[name] for name in names})}
    asked = source.choice(_TEMPLATES["json_schema"]["asks"]).format_map(_Words(source))
    return {
        **_asking(asked),
        "response_format": {"type": "json_schema", "json_schema": schema},
    }


def _tool(source: Random) -> Body:
    name, asked = source.choice(_TEMPLATES["tool"])
    tool = _tool_named(name)
    forced = {"type": "function", "function": {"name": tool["function"]["name"]}}
    return {
        **_asking(asked.format_map(_Words(source))),
        "tools": [tool],
        "tool_choice": source.choice([forced, "required", "auto"]),
    }


def _streamed_tool(source: Random) -> Body:
    return {**_tool(source), "stream": True}


def _parallel_tools(source: Random) -> Body:
    asked = source.choice(_TEMPLATES["parallel_tools"]).format_map(_Words(source))
    tools = [_tool_named(name) for name in source.sample(list(_TEMPLATES["tools"]), _TOOLS)]
    return {**_asking(asked), "tools": tools, "tool_choice": "required"}


def _language(source: Random) -> Body:
    language = source.choice(_TEMPLATES["language"])
    asked = source.choice(language["asks"]).format(word=source.choice(language["words"]))
    return _asking(asked)


def _long_context(source: Random) -> Body:
    parts, row = _TEMPLATES["long_context"]["parts"], source.choice(_ROW_TEMPLATES)
    rows = [
        row.format(
            number=f"{number:03}",
            part=source.choice(parts),
            digit=source.randint(1, 9),
            count=source.randint(2, 499),
        )
        for number in range(1, source.randint(*_ROWS))
    ]
    asked = source.choice(_TEMPLATES["long_context"]["asks"]).format(part=source.choice(parts))
    return _asking("\n".join([*rows, "", asked]))


def _asking(text: str) -> Body:
    return {"messages": [{"role": "user", "content": text}]}


def _tool_named(name: str) -> dict[str, Any]:
    called, description, fields = _TEMPLATES["tools"][name]
    function = {"name": called, "description": description, "parameters": _object(fields)}
    return {"type": "function", "function": function}


def _object(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(fields),
        "additionalProperties": False,
    }


_ROW_TEMPLATES: Sequence[str] = _TEMPLATES["long_context"]["rows"]
_MAKERS: Mapping[str, Maker] = {
    "grammar": _grammar,
    "json_schema": _json_schema,
    "language": _language,
    "long_context": _long_context,
    "parallel_tools": _parallel_tools,
    "streamed_tool": _streamed_tool,
    "tool": _tool,
}
