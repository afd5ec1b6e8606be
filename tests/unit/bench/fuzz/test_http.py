"""The judge's HTTP: answers in pieces, cut answers, bytes that are no HTTP, requests in a row."""

import pytest

from bench.fuzz.http import NotHttpError, ReplyReader, count_requests

_WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
_CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
_POST = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}"


@pytest.mark.parametrize("data", [_WHOLE, _CHUNKED], ids=["length", "chunked"])
def test_answers_are_read_byte_by_byte(data: bytes) -> None:
    reader = ReplyReader()

    for byte in data + data:
        reader.feed(bytes([byte]))

    assert [(reply.status, bytes(reply.body)) for reply in reader.replies] == [(200, b"ok")] * 2
    assert reader.whole == 2


def test_a_cut_answer_is_not_whole() -> None:
    reader = ReplyReader()

    reader.feed(_WHOLE[:-1])
    reader.close()

    assert reader.whole == 0
    assert reader.replies[0].status == 200


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    reader = ReplyReader()

    reader.feed(b"HTTP/1.1 200 OK\r\n\r\nok")
    reader.close()

    assert reader.whole == 1


def test_the_answer_to_head_has_no_body() -> None:
    reader = ReplyReader(is_head=True)

    reader.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")

    assert reader.whole == 1


def test_what_is_no_http_is_found() -> None:
    with pytest.raises(NotHttpError):
        ReplyReader().feed(b"hello\r\n\r\n")


def test_the_first_of_two_headers_wins() -> None:
    reader = ReplyReader()

    reader.feed(b"HTTP/1.1 200 OK\r\nx: 1\r\nx: 2\r\ncontent-length: 0\r\n\r\n")

    assert reader.replies[0].headers["x"] == "1"


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (_POST[:-1], 0),
        (_POST, 1),
        (_POST * 3, 3),
        (_POST + b"\x00" + _POST, 1),
        (_POST.replace(b"host: a", b"host: a\r\nconnection: close") + _POST, 1),
        (_POST.replace(b"1.1", b"1.0") + _POST, 1),
        (_POST.replace(b"content-length: 2", b"content-length: 200") + _POST, 0),
        (_POST.replace(b"host: a\r\n", b"") + _POST, 0),
    ],
    ids=["none", "cut", "one", "three", "garbage", "close", "1.0", "swallowed", "no host"],
)
def test_complete_requests_are_counted(data: bytes, count: int) -> None:
    assert count_requests(data) == count
