"""Pad complete events to an exact size with bytes that every client ignores.

A final chat chunk is padded in OpenAI's own field `obfuscation`, anything else with an SSE comment.
Sources: OpenAI API reference, "Streaming", `include_obfuscation`; WHATWG HTML, section 9.2.
"""

_END = b"}\n\n"
_FIELD = b',"obfuscation":""'
_COMMENT = b":\n\n"
_EVENT = b'data: {"'
_CHOICES = b'"choices":['


def padded(events: bytes, *, size: int, filling: bytes) -> bytes:
    """`events`, padded to exactly `size` bytes.

    Args:
        events: At most `size` bytes: complete events, possibly after the tail of another one.
        size: Length of the result.
        filling: At least `size` characters without a meaning in JSON or SSE, such as letters. They
            should be random: compression would reveal the padding otherwise.
    """
    missing = size - len(events)
    if missing >= len(_FIELD) and _ends_with_chunk(events):
        filled = filling[: missing - len(_FIELD)]
        return events[: -len(_END)] + _FIELD[:-1] + filled + b'"' + _END
    if missing >= len(_COMMENT):
        return events + b":" + filling[: missing - len(_COMMENT)] + b"\n\n"
    return events + b"\n" * missing  # blank lines between events


def _ends_with_chunk(events: bytes) -> bool:
    begin = events.rfind(_EVENT)
    return begin >= 0 and events.endswith(_END) and events.find(_CHOICES, begin) >= 0
