"""Write the chart's values.yaml, values.schema.json and the table in its README.

usage: python -m helm.generate [--check]

With --check nothing is written; the exit status is 1 if a file is out of date.
"""

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from helm.values import LOOSER, SET_BY_THE_CHART, SETTINGS, ChartValues

CHART = Path(__file__).parent / "specgate"
_WIDTH = 100
_TABLE = ("<!-- values: written by `python -m helm.generate` -->", "<!-- end of values -->")
_REFERENCE = "#/$defs/"


def values_yaml() -> str:
    """Return values.yaml: every value with its default, after a comment that describes it."""
    head = "# Written by `python -m helm.generate` from helm/values/; do not edit.\n"
    return head + "\n".join(_value_lines(ChartValues, ChartValues(), indent=0)) + "\n"


def readme_table() -> str:
    """Return a Markdown table with a row for every group and value."""
    rows = _rows(ChartValues, ChartValues(), prefix="")
    return "| value | default | meaning |\n|---|---|---|\n" + "\n".join(rows)


def schema_json() -> str:
    """Return a strict JSON Schema of the values, including those of `settings`.

    It follows draft 7, which Helm 3 and 4 both support.
    """
    schema = ChartValues.model_json_schema()
    parts: dict[str, Any] = schema["$defs"]
    for section, settings in SETTINGS.items():
        tree = settings.model_json_schema()
        inner: dict[str, Any] = tree.pop("$defs", {})
        inner[settings.__name__] = tree
        assert parts.keys().isdisjoint(inner)
        parts |= inner
        parts["Settings"]["properties"][section] = {"$ref": _REFERENCE + settings.__name__}
    for name, hidden in SET_BY_THE_CHART.items():
        for field in hidden:
            del parts[name]["properties"][field]
    for name, fields in LOOSER.items():
        parts[name]["properties"] |= fields
    schema["$defs"] = {name: parts[name] for name in sorted(_used(schema, parts))}
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    return json.dumps(draft | _plain(schema), indent=1) + "\n"


def _fields(model: type[BaseModel], value: BaseModel) -> Iterator[tuple[str, FieldInfo, object]]:
    for name, field in model.model_fields.items():
        if field.alias is None:  # `global` belongs to Helm
            yield name, field, getattr(value, name)


def _value_lines(model: type[BaseModel], value: BaseModel, *, indent: int) -> Iterator[str]:
    space = " " * indent
    for name, field, default in _fields(model, value):
        if indent == 0:
            yield ""
        yield from textwrap.wrap(
            _sentence(field),
            _WIDTH,
            initial_indent=f"{space}# ",
            subsequent_indent=f"{space}# ",
            break_on_hyphens=False,
        )
        if isinstance(default, BaseModel):
            yield f"{space}{name}:"
            yield from _value_lines(type(default), default, indent=indent + 2)
        elif isinstance(default, list | dict) and default:
            block = yaml.safe_dump(default, sort_keys=False)
            yield f"{space}{name}:\n" + textwrap.indent(block, space + "  ").rstrip("\n")
        else:
            yield f"{space}{name}: {_inline(default)}"


def _rows(model: type[BaseModel], value: BaseModel, *, prefix: str) -> Iterator[str]:
    for name, field, default in _fields(model, value):
        if isinstance(default, BaseModel):
            yield f"| **`{prefix}{name}`** | | {_sentence(field)} |"
            yield from _rows(type(default), default, prefix=f"{prefix}{name}.")
        else:
            yield f"| `{prefix}{name}` | `{_inline(default)}` | {_sentence(field)} |"


def _inline(default: object) -> str:
    return json.dumps(default)


def _sentence(field: FieldInfo) -> str:
    assert field.description is not None
    return field.description


def _used(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> set[str]:
    """Return the names of all parts that `schema` refers to, directly or through other parts."""
    found: set[str] = set()
    pending = [{key: value for key, value in schema.items() if key != "$defs"}]
    while pending:
        for name in _references(pending.pop()):
            if name not in found:
                found.add(name)
                pending.append(parts[name])
    return found


def _references(node: object) -> Iterator[str]:
    match node:
        case {"$ref": str(target)}:
            yield target.removeprefix(_REFERENCE)
        case dict():
            for value in node.values():
                yield from _references(value)
        case list():
            for value in node:
                yield from _references(value)


def _plain(node: Any) -> Any:
    """Return a schema without annotations and with tuples as draft 7 writes them."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return {"$ref": node["$ref"]}  # draft 7 ignores the keywords beside it
    plain = {
        key: {name: _plain(part) for name, part in value.items()}
        if key in ("properties", "$defs")
        else _plain(value)
        for key, value in node.items()
        if key not in ("title", "default", "format")
    }
    if "prefixItems" in plain:
        plain["items"] = plain.pop("prefixItems")
    return plain


def readme(text: str) -> str:
    """Return the README with a new table."""
    before, _, rest = text.partition(_TABLE[0])
    _, _, after = rest.partition(_TABLE[1])
    return f"{before}{_TABLE[0]}\n{readme_table()}\n{_TABLE[1]}{after}"


def write_files(files: Mapping[Path, str], *, check: bool) -> int:
    """Write files, or report those that differ.

    Args:
        files: Their texts.
        check: Write nothing.

    Returns:
        1 if `check` is set and a file is missing or differs, else 0.
    """
    stale = False
    for path, text in files.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{path.name} is out of date: run `make docs`\n")
            stale = True
    return int(stale)


def main() -> int:
    """Write or check the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if stale"
    )
    files = {
        CHART / "values.yaml": values_yaml(),
        CHART / "values.schema.json": schema_json(),
        CHART / "README.md": readme((CHART / "README.md").read_text(encoding="utf-8")),
    }
    return write_files(files, check=parser.parse_args().check)


if __name__ == "__main__":
    sys.exit(main())
