"""The text that a worker will read for a request, as it is in the body."""

from dataclasses import dataclass

import msgspec
from msgspec import Raw

from gateway.protocol.endpoints import Dialect
from gateway.protocol.json_object import is_null
from gateway.protocol.request import InferenceRequest

_FIELDS = {
    Dialect.CHAT: ("tools", "messages"),
    Dialect.COMPLETIONS: ("prompt",),
    Dialect.RESPONSES: ("tools", "instructions", "input"),
    Dialect.MESSAGES: ("tools", "system", "messages"),
    Dialect.PLAIN: (),
}
"""What a prompt is made from, in order; the last one grows from turn to turn."""
_OPENING_BYTES = 1024


@dataclass(frozen=True, slots=True)
class PromptText:
    """A prompt, for comparison with others; it is not what the chat template makes of it.

    Attributes:
        parts: JSON text, in order. The next turn of a conversation has the same, and more.
        opening: What all turns of the conversation have: up to the first message of its user.
        continues: Whether there are messages after that.
        salt: The caller's own `cache_salt`, as JSON text.
    """

    parts: tuple[memoryview, ...]
    opening: tuple[memoryview, ...]
    continues: bool
    salt: str


class _Message(msgspec.Struct):
    role: object = None


_MESSAGES = msgspec.json.Decoder(list[Raw])
_MESSAGE = msgspec.json.Decoder(_Message)


def prompt_text(request: InferenceRequest) -> PromptText:
    """Find the prompt in a request."""
    fields = _FIELDS[request.endpoint.dialect]
    members = request.members
    found = [memoryview(members[name]) for name in fields if not is_null(members.get(name))]
    if request.turn is not None and request.turn.history:
        found[-1:] = [memoryview(request.turn.whole_input(members.get("input")))]
    salt = members.get("cache_salt")
    opening, continues = _opening(found[-1]) if found else ((), False)
    return PromptText(
        tuple(found), opening, continues, "" if salt is None else bytes(memoryview(salt)).decode()
    )


def _opening(last: memoryview) -> tuple[tuple[memoryview, ...], bool]:
    """The messages up to the first one of the user, and whether more follow."""
    try:
        messages = _MESSAGES.decode(last)
        for at, message in enumerate(messages):
            if _MESSAGE.decode(message).role not in ("system", "developer"):
                opening = tuple(memoryview(each) for each in messages[: at + 1])
                return opening, at + 1 < len(messages)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):  # the worker will refuse it
        pass
    return (last[:_OPENING_BYTES],), False
