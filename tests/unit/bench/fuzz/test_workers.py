"""How a stream ends, judged as the endpoint's SDK would."""

import pytest

from bench.fuzz.workers import flaw_of_stream

_CHAT, _RESPONSES, _MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
_TEXT = b'data: {"choices":[]}\n\n'
_DONE = b"data: [DONE]\n\n"
_ERROR = b'data: {"error":{"message":"a"}}\n\n'
_COMPLETED = b'event: response.completed\ndata: {"type":"response.completed"}\n\n'
_STOP = b"event: message_stop\ndata: {}\n\n"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (_CHAT, _TEXT + _DONE),
        (_CHAT, b": comment\n\n" + _TEXT + b": comment\n\n" + _ERROR + b": comment\n\n"),
        (_CHAT, (_TEXT + _DONE).replace(b"\n", b"\r\n")),
        (_CHAT, (_TEXT + _DONE).replace(b"\n", b"\r")),
        (_CHAT, b'data: {"error":null}\n\n' + _DONE),
        (_RESPONSES, _COMPLETED),
        (_RESPONSES, _ERROR),
        (_MESSAGES, b"event: ping\ndata: {}\n\n" + _STOP),
        (_MESSAGES, b"event: error\ndata: {}\n\n"),
    ],
)
def test_one_ending_is_right(path: str, body: bytes) -> None:
    assert flaw_of_stream(body, path, is_good=False) is None


@pytest.mark.parametrize(
    ("path", "body", "flaw"),
    [
        (_CHAT, _TEXT, "0 endings"),
        (_CHAT, b"", "0 endings"),
        (_CHAT, _DONE + _DONE, "2 endings"),
        (_CHAT, _ERROR + _DONE, "2 endings"),
        (_CHAT, _DONE + _TEXT, "events behind the end"),
        (_RESPONSES, b"event: response.completed\n\n", "0 endings"),
        (_MESSAGES, _DONE, "0 endings"),
        (_MESSAGES, b"event: message_stop\n\n", "0 endings"),
    ],
)
def test_another_number_of_endings_is_wrong(path: str, body: bytes, flaw: str) -> None:
    assert flaw_of_stream(body, path, is_good=False) == flaw


def test_a_good_stream_has_no_error() -> None:
    assert flaw_of_stream(_TEXT + _ERROR, _CHAT, is_good=True) == "an error in a good stream"
