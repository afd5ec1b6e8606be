"""A JSON object as its members: names, and values that stay as they were written.

`msgspec` checks the whole text but builds nothing for a value: it stays a view of the text (`Raw`).
So a body costs its own size, whatever it holds, and a value that is passed on keeps its number
formats, escapes and spaces. Strict JSON (RFC 8259): UTF-8, no NaN, no lone surrogates.
"""

import codecs
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from gateway.errors import InvalidRequestError, UpstreamError

Members = dict[str, Raw]
"""The values of an object by name, as JSON text. Of duplicate names the last counts, as in vLLM."""

MAX_MEMBERS = 1_000
"""A member takes 200 bytes of memory, and as little as 9 bytes of a body."""
_MAX_NAME_CHARACTERS = 1_000
_UTF8_STEP_BYTES = 2**16


class _Name(str):
    """A member's name. A type of its own, so that msgspec passes each name to `_take`."""

    __slots__ = ()


class _MemberReader:
    """Reads objects, each of a limited number of members."""

    def __init__(self) -> None:
        self._left = 0
        self._decoder = msgspec.json.Decoder(dict[_Name, Raw], dec_hook=self._take)

    def read(self, text: bytes | Raw, *, most: int) -> Members:
        """The members of `text`; raises as soon as there are more than `most`."""
        self._left = most
        return cast(Members, self._decoder.decode(text))

    def _take(self, _: type, name: str) -> _Name:
        self._left -= 1
        if self._left < 0:
            raise InvalidRequestError("The request body has an object with too many members.")
        if len(name) > _MAX_NAME_CHARACTERS:
            raise InvalidRequestError("The request body has a member whose name is too long.")
        return _Name(name)


_READER = _MemberReader()


def read_body(data: bytes) -> Members:
    """Read a request body, which has to be one JSON object.

    Raises:
        InvalidRequestError: Not UTF-8, not JSON, nested too deeply, or not an object.
    """
    _require_utf8(data)
    return read_members(data)


def read_members(text: bytes | Raw, *, most: int = MAX_MEMBERS) -> Members:
    """Read an object that is valid UTF-8.

    Args:
        text: The object as JSON.
        most: Largest number of members, duplicates included.

    Raises:
        InvalidRequestError: Not JSON, nested too deeply, or not an object of `most` members.
    """
    try:
        return _READER.read(text, most=most)
    except msgspec.ValidationError as error:
        raise InvalidRequestError("The request body must be a JSON object.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # the latter in a name
        reason = str(error).removeprefix("JSON is malformed: ")
        raise InvalidRequestError(f"The request body is not valid JSON: {reason}.") from error
    except RecursionError as error:
        raise InvalidRequestError("The request body is nested too deeply.") from error


def write_members(members: Mapping[str, Raw]) -> bytes:
    """The object with these members as JSON: values byte for byte, no spaces between members."""
    return msgspec.json.encode(members)


def json_text(value: Any) -> Raw:
    """A value of ours as JSON."""
    return Raw(msgspec.json.encode(value))


def is_null(value: Raw | None) -> bool:
    """Whether a value is absent or `null`; no other one begins with an n."""
    return value is None or memoryview(value)[0] == ord("n")


class WorkerObject(msgspec.Struct):
    """What the gateway reads of a worker's answer, chunk or event; all else is skipped."""

    type: Any = None
    usage: Any = None
    metrics: Any = None
    system_fingerprint: Any = None
    response: "WorkerObject | None" = None
    message: "WorkerObject | None" = None


NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What reading JSON of a worker raises: malformed, not UTF-8, or nested too deeply."""
_WORKER_OBJECT = msgspec.json.Decoder(WorkerObject)


def read_worker_object(data: bytes) -> WorkerObject:
    """Read an object that a worker sent.

    Raises:
        UpstreamError: It is not a JSON object.
    """
    try:
        return _WORKER_OBJECT.decode(data)
    except NOT_JSON as error:
        raise UpstreamError("The engine sent something that is not a JSON object.") from error


def _require_utf8(data: bytes) -> None:
    """Refuse what is not UTF-8, which msgspec does not check in values.

    In pieces: the text as a whole could take four times the memory of `data`.
    """
    if data.isascii():
        return
    decoder, view = codecs.getincrementaldecoder("utf-8")(), memoryview(data)
    try:
        for begin in range(0, len(view), _UTF8_STEP_BYTES):
            decoder.decode(view[begin : begin + _UTF8_STEP_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise InvalidRequestError("The request body is not valid UTF-8.") from error
