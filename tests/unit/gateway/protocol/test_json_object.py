import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.errors import InvalidRequestError, UpstreamError
from gateway.protocol.json_object import (
    is_null,
    json_text,
    read_body,
    read_members,
    read_worker_object,
    write_members,
)

TEXT = st.text(max_size=8)
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALAR = st.none() | st.booleans() | NUMBER | TEXT
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
KEY = st.sampled_from(["a", "b", 'c"\\', "ü", "\U0001f642", "", ",", "}"])
SPACE = st.text(" \t\r\n", max_size=2)


def spelt(draw: st.DrawFn, text: str) -> str:
    """One of the ways to write a string in JSON."""
    if draw(st.booleans()):
        return '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in text) + '"'
    return json.dumps(text, ensure_ascii=draw(st.booleans()))


@st.composite
def object_texts(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    """Text of an object (any spaces, escapes, duplicate names), and the text of its values."""
    texts: dict[str, str] = {}
    pieces = []
    for key, value in draw(st.lists(st.tuples(KEY, VALUE), max_size=5)):
        texts[key] = json.dumps(value, indent=draw(st.sampled_from([None, 1])))
        name = draw(SPACE) + spelt(draw, key) + draw(SPACE)
        pieces.append(name + ":" + draw(SPACE) + texts[key] + draw(SPACE))
    inside = ",".join(pieces) or draw(SPACE)
    return draw(SPACE) + "{" + inside + "}" + draw(SPACE), texts


@given(object_texts())
@example(('{"a":1,"b":2,"a":3}', {"a": "3", "b": "2"}))
def test_each_value_stays_as_it_was_written(found: tuple[str, dict[str, str]]) -> None:
    text, values = found

    members = read_body(text.encode())

    assert {name: bytes(value).decode() for name, value in members.items()} == values
    assert json.loads(write_members(members)) == json.loads(text)


def test_members_are_written_in_order_and_without_spaces() -> None:
    members = read_members(b' {"a" : 1.0e0 , "\\u0062\\"":[ "\\u00e9\\/" ]\n}')
    members["new"] = json_text({"x": [None]})

    written = write_members(members)

    assert written == b'{"a":1.0e0,"b\\"":[ "\\u00e9\\/" ],"new":{"x":[null]}}'


def test_null_is_told_from_every_other_value() -> None:
    values = read_members(b'{"a": null, "b": 0, "c": "null", "d": [null], "e": false}')

    assert [name for name, value in values.items() if is_null(value)] == ["a"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[1]",
        b'"text"',
        b"null",
        b"{",
        b'{"a"',
        b'{"a":1,',
        b'{"a":1,}',
        b'{"a":1 "b":2}',
        b"{a:1}",
        b'{1:"a"}',
        b'{"a":1}x',
        b'{"a":NaN}',
        b'{"a":[-Infinity]}',
        b'{"a":01}',
        b'{"a":"\n"}',
        b'{"a":1/**/}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"' + b"x" * 2**16 + b'\xc3"}',
        b'{"\xff":1}',
        b'{"a":["\\ud800"]}',
        b'{"\\udc00":"\\ud83d\\ude42"}',
        '{"a":1}'.encode("utf-16"),
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
    ids=lambda data: repr(data[:24]),
)
def test_invalid_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        read_body(data)


@pytest.mark.parametrize("wide", [b"\xc3\xa9", "é漢🙂".encode()], ids=["two", "all"])
def test_a_character_may_lie_across_the_pieces_that_are_checked(wide: bytes) -> None:
    for shift in range(12):
        value = b'"' + b"x" * (2**16 - 6 - shift) + wide * 3 + b'"'

        assert bytes(read_body(b'{"a":' + value + b"}")["a"]) == value


@given(st.binary(max_size=40) | st.text('{}[]":,\\ u01ae\n', max_size=40).map(str.encode))
def test_any_input_is_parsed_or_refused(data: bytes) -> None:
    try:
        text = write_members(read_body(data))
    except InvalidRequestError:
        return

    assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize("names", [["a"], list("abcd")], ids=["one-name", "different-names"])
def test_an_object_with_too_many_members_is_refused(names: list[str]) -> None:
    texts = [f'"{name}":1' for name in names * 4][:4]
    fits, over = ("{" + ",".join(texts[:count]) + "}" for count in (3, 4))

    assert len(read_members(fits.encode(), most=3)) == min(3, len(names))
    with pytest.raises(InvalidRequestError, match="too many"):
        read_members(over.encode(), most=3)


def test_what_the_gateway_reads_of_a_workers_object() -> None:
    found = read_worker_object(b'{"usage":{"a":1},"choices":[1],"response":{"usage":2,"x":3}}')

    assert (found.usage, found.metrics, found.system_fingerprint) == ({"a": 1}, None, None)
    assert found.response is not None
    assert found.response.usage == 2


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[]", b"1", b"[" * 100_000, b'{"a":' * 100_000),
        *(b"\xff", b'{"metrics":"\xff"}'),
    ],
    ids=[
        *("empty", "open", "array", "number", "deep", "deep-object"),
        *("not-utf-8", "text-not-utf-8"),
    ],
)
def test_invalid_json_from_a_worker_is_its_fault(data: bytes) -> None:
    with pytest.raises(UpstreamError):
        read_worker_object(data)


def test_text_of_ours_is_valid_json() -> None:
    assert bytes(json_text('a"\n')) == b'"a\\"\\n"'
    assert msgspec.json.decode(json_text([1, None])) == [1, None]
