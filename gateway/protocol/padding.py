"""Fill whole events up to an exact size, with bytes that every client ignores.

The last chat chunk gets OpenAI's own field `obfuscation`; elsewhere an SSE comment does it.
Sources: OpenAI API reference, "Streaming", `include_obfuscation`; WHATWG HTML, section 9.2.
"""

_END = b"}\n\n"
_FIELD = b',"obfuscation":""'
_COMMENT = b":\n\n"
_EVENT = b'data: {"'
_CHOICES = b'"choices":['


def padded(events: bytes, *, size: int, filling: bytes) -> bytes:
    """Whole events, or the last bytes of one and whole events, at exactly `size` bytes.

    Args:
        events: At most `size` bytes, none is fine.
        size: What comes out.
        filling: At least `size` characters that mean nothing in JSON or SSE, such as letters;
            random, or compression would undo all this.
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
