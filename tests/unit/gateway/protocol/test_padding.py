import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol import FrameSplitter, padded
from gateway.protocol.sse import data_of

FILLING = (string.ascii_letters * 40).encode()
CHUNK = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
ERROR = b'data: {"error":{"message":"no"}}\n\n'
EVENTS = [b"", CHUNK, CHUNK * 3, b": note\n\n", b"data: [DONE]\n\n", ERROR, CHUNK[30:]]


def data_in(stream: bytes) -> list[bytes]:
    """What the events of a stream say, comments and blank lines left out."""
    return [data for frame in FrameSplitter(10_000).feed(stream) if (data := data_of(frame))]


@given(st.sampled_from(EVENTS), st.integers(0, 400))
def test_the_result_has_the_exact_size_and_ends_an_event(events: bytes, missing: int) -> None:
    filled = padded(events, size=len(events) + missing, filling=FILLING)

    assert len(filled) == len(events) + missing
    assert filled == events or filled.endswith(b"\n\n") or filled == b"\n"


@given(st.integers(0, 400))
def test_a_padded_chat_chunk_differs_only_in_obfuscation(missing: int) -> None:
    (data,) = data_in(padded(CHUNK, size=len(CHUNK) + missing, filling=FILLING))

    event = json.loads(data)
    event.pop("obfuscation", None)
    assert event == json.loads(data_of(CHUNK))


def test_obfuscation_is_in_the_last_chunk() -> None:
    *_, data = data_in(padded(CHUNK * 2, size=2 * len(CHUNK) + 20, filling=FILLING))

    assert json.loads(data)["obfuscation"] == "abc"


@pytest.mark.parametrize(
    "events", [ERROR, b"data: [DONE]\n\n", b": note\n\n"], ids=["error", "done", "comment"]
)
def test_other_events_are_followed_by_a_comment(events: bytes) -> None:
    filled = padded(events, size=len(events) + 50, filling=FILLING)

    assert filled.startswith(events + b":abc")
    assert data_in(filled) == data_in(events)
