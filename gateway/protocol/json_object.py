"""A JSON object that knows the position of each member, so that an edit changes nothing else.

Parsing a body and dumping it again would change number formats (`1.0`, `1e0`), escapes, key order
and duplicate keys. Instead the standard library's C scanner yields values and their positions, and
`edited` splices text. Strict JSON (RFC 8259): no NaN, no comments, UTF-8 only.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from gateway.errors import InvalidRequestError, UpstreamError

_BLANKS = (" ", "\n", "\t", "\r")
_SPACE = re.compile(r"[ \t\n\r]*")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


class Member(NamedTuple):
    """One `"key": value` of an object; positions are character offsets into the text."""

    key: str
    value: Any
    start: int
    value_start: int
    end: int


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A parsed object, its text, and the position of each of its members."""

    text: str
    start: int
    end: int
    members: tuple[Member, ...]

    def get(self, key: str) -> Any:
        """The value of `key`, or None. The last of duplicate keys wins, as in vLLM."""
        member = self.member(key)
        return None if member is None else member.value

    def member(self, key: str) -> Member | None:
        """The member called `key`, or None. The last of duplicate keys wins."""
        return next((member for member in reversed(self.members) if member.key == key), None)

    def inner(self, key: str) -> "JsonObject | None":
        """The object at `key`, with its members' positions; None if the value is not an object."""
        member = self.member(key)
        if member is None or not isinstance(member.value, dict):
            return None
        return _scan_object(self.text, member.value_start)

    def edited(self, changes: Mapping[str, str | None]) -> str:
        """The object's text with some members replaced or added (JSON text) or removed (None).

        No other character changes. If a replaced key was duplicated, only its last occurrence
        remains.
        """
        pieces: list[str] = []
        cursor = self.start + 1
        missing = {key: text for key, text in changes.items() if text is not None}
        for index, member in enumerate(self.members):
            gap, cursor = self.text[cursor : member.start], member.end
            if member.key not in changes:
                piece = self.text[member.start : member.end]
            else:
                last = all(later.key != member.key for later in self.members[index + 1 :])
                replacement = changes[member.key] if last else None
                if replacement is None:
                    continue
                piece = self.text[member.start : member.value_start] + replacement
                missing.pop(member.key, None)
            pieces.append((gap if pieces else gap.replace(",", "", 1)) + piece)
        for key, text in missing.items():
            pieces.append(("," if pieces else "") + json.dumps(key) + ":" + text)
        return "{" + "".join(pieces) + self.text[cursor : self.end]


EMPTY_OBJECT = JsonObject("{}", 0, 2, ())


def parse_object(data: bytes) -> JsonObject:
    """Parse a body that has to be one JSON object.

    Raises:
        InvalidRequestError: Not UTF-8, not JSON, nested too deeply, or not an object.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError("The request body is not valid UTF-8.") from error
    start = _skip(text, 0)
    if not text.startswith("{", start):
        raise InvalidRequestError("The request body must be a JSON object.")
    try:
        parsed = _scan_object(text, start)
        if _skip(text, parsed.end) != len(text):
            raise ValueError("text after the object")
    except (ValueError, StopIteration) as error:
        raise InvalidRequestError("The request body is not valid JSON.") from error
    except RecursionError as error:
        raise InvalidRequestError("The request body is nested too deeply.") from error
    return parsed


def read_json_object(data: bytes) -> dict[str, Any]:
    """Parse a worker's JSON when positions are not needed.

    Raises:
        UpstreamError: It is not a JSON object.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UpstreamError("The engine sent something that is not JSON.") from error
    if not isinstance(value, dict):
        raise UpstreamError("The engine sent JSON that is not an object.")
    return value


def _skip(text: str, at: int) -> int:
    if not text.startswith(_BLANKS, at):
        return at  # the usual case, without the cost of the regular expression
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _scan_object(text: str, start: int) -> JsonObject:
    members: list[Member] = []
    at = _skip(text, start + 1)
    if text.startswith("}", at):
        return JsonObject(text, start, at + 1, ())
    while True:
        if not text.startswith('"', at):
            raise ValueError("a member must begin with its name")
        key, after_key = _DECODER.raw_decode(text, at)
        colon = _skip(text, after_key)
        if not text.startswith(":", colon):
            raise ValueError("no colon after a name")
        value_start = _skip(text, colon + 1)
        value, end = _DECODER.raw_decode(text, value_start)
        members.append(Member(key, value, at, value_start, end))
        at = _skip(text, end)
        if text.startswith("}", at):
            return JsonObject(text, start, at + 1, tuple(members))
        if not text.startswith(",", at):
            raise ValueError("no comma between members")
        at = _skip(text, at + 1)
