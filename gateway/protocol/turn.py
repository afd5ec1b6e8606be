"""One turn of a conversation on `/v1/responses`: its history, its own items, and how it is marked.

All JSON stays text: items are joined and members replaced without decoding them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from gateway.errors import InvalidRequestError, UpstreamError
from gateway.protocol.json_object import NOT_JSON, Members, json_text, write_members
from gateway.protocol.sse import data_frame

_ANSWER = msgspec.json.Decoder(dict[str, Raw])


@dataclass(frozen=True, slots=True)
class Turn:
    """What a request says about the conversation that it is part of.

    Attributes:
        previous_id: The response that it continues; None: it begins a conversation.
        store: The request's `store`; None if it has none.
        history: Items before this turn, as JSON arrays, oldest first.
    """

    previous_id: str | None
    store: bool | None
    history: tuple[bytes, ...] = ()

    @property
    def stores(self) -> bool:
        """Whether the response is stored, as it is unless the caller says otherwise."""
        return self.store is not False

    @property
    def history_bytes(self) -> int:
        """Length of the history."""
        return sum(map(len, self.history))

    def whole_input(self, value: Raw | None) -> Raw:
        """The `input` for the worker: the history, then the turn's own items.

        Raises:
            InvalidRequestError: The request's `input` is neither a string nor an array.
        """
        return Raw(joined([*self.history, items_of(value)]))


def items_of(value: Raw | None) -> bytes:
    """The items of a request's `input`, as a JSON array; a string is a message of the user.

    Raises:
        InvalidRequestError: It is neither a string nor an array.
    """
    text = b"" if value is None else bytes(value).strip()
    if text.startswith(b"["):
        return text
    if text.startswith(b'"'):
        return b'[{"role":"user","content":' + text + b"}]"
    raise InvalidRequestError("'input' must be a string or an array of items.", param="input")


def joined(arrays: Iterable[bytes]) -> bytes:
    """One JSON array with the items of several."""
    inner = (array.strip()[1:-1].strip() for array in arrays)
    return b"[" + b",".join(items for items in inner if items) + b"]"


def marked(response: bytes | Raw, turn: Turn) -> bytes:
    """A response object with the turn's `previous_response_id` and `store`; all else is kept.

    Raises:
        UpstreamError: It is not a JSON object.
    """
    members = _members(response)
    members["previous_response_id"] = json_text(turn.previous_id)
    members["store"] = json_text(turn.stores)
    return write_members(members)


def marked_event(event: bytes, data: bytes, turn: Turn) -> tuple[bytes, bytes]:
    """An event that carries a response, and the response itself, both marked.

    Raises:
        UpstreamError: The event or its `response` is not a JSON object.
    """
    members = _members(data)
    response = marked(members.get("response", Raw(b"")), turn)
    members["response"] = Raw(response)
    # Line ends can only be between values, and would end the event's field.
    return data_frame(write_members(members).replace(b"\n", b" "), event=event), response


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What is read of a response to store it.

    Attributes:
        id: Its id.
        status: How it ended.
        output: Its output items, as a JSON array.
    """

    id: str
    status: str
    output: bytes


def read_facts(response: bytes) -> AnswerFacts:
    """Read a response object.

    Raises:
        UpstreamError: It has no id, status or list of outputs.
    """
    try:
        found = _FACTS.decode(response)
    except NOT_JSON as error:
        raise UpstreamError("The engine sent a response without id, status or output.") from error
    return AnswerFacts(found.id, found.status, msgspec.json.encode(found.output))


def _members(text: bytes | Raw) -> Members:
    try:
        return _ANSWER.decode(text)
    except NOT_JSON as error:
        raise UpstreamError("The engine sent something that is not a JSON object.") from error


class _Facts(msgspec.Struct):
    id: str
    status: str
    output: list[Raw]


_FACTS = msgspec.json.Decoder(_Facts)
