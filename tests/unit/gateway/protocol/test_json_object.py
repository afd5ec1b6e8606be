import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.errors import InvalidRequestError, UpstreamError
from gateway.protocol.json_object import parse_object, read_json_object

TEXT = st.text(max_size=8)
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALAR = st.none() | st.booleans() | NUMBER | TEXT
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
KEY = st.sampled_from(["a", "b", 'c"\\', "ü", "\ud800", "", ",", "}"])
SPACE = st.text(" \t\r\n", max_size=2)
CHANGES = st.dictionaries(KEY, st.none() | VALUE.map(json.dumps), max_size=4)


def spelt(draw: st.DrawFn, text: str) -> str:
    """One of the ways to write a string in JSON."""
    escaped = draw(st.booleans())
    if escaped:
        return '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in text) + '"'
    return json.dumps(text, ensure_ascii=draw(st.booleans()) or not text.isprintable())


@st.composite
def object_texts(draw: st.DrawFn) -> str:
    """Text of an object: any spaces, escapes, duplicate names."""
    members = draw(st.lists(st.tuples(KEY, VALUE), max_size=5))
    pieces = [
        draw(SPACE)
        + spelt(draw, key)
        + draw(SPACE)
        + ":"
        + draw(SPACE)
        + json.dumps(value, indent=draw(st.sampled_from([None, 1])))
        + draw(SPACE)
        for key, value in members
    ]
    return draw(SPACE) + "{" + (",".join(pieces) or draw(SPACE)) + "}" + draw(SPACE)


@given(object_texts())
def test_values_equal_those_of_the_standard_library(text: str) -> None:
    parsed = parse_object(text.encode())

    assert {member.key: member.value for member in parsed.members} == json.loads(text)
    assert parsed.edited({}) == parsed.text[parsed.start : parsed.end]
    assert parsed.text == text


@given(object_texts(), CHANGES)
@example('{"a":1,"a":2}', {"a": "3"})
@example('{"a":1,"b":2,"a":3}', {"a": None})
@example("{ }", {"a": "1", "b": "2"})
def test_an_edit_equals_an_edit_of_the_parsed_object(
    text: str, changes: dict[str, str | None]
) -> None:
    parsed = parse_object(text.encode())
    expected: dict[str, Any] = {member.key: member.value for member in parsed.members}
    expected |= {key: json.loads(new) for key, new in changes.items() if new is not None}
    removed = {key for key, new in changes.items() if new is None}

    edited = json.loads(parsed.edited(changes))

    assert edited == {key: value for key, value in expected.items() if key not in removed}


@pytest.mark.parametrize(
    ("text", "changes", "edited"),
    [
        ('{"a": 1.0 , "b":1e0}', {"b": "2"}, '{"a": 1.0 , "b":2}'),
        ('{"a": 1.0 , "b":1e0}', {"a": None}, '{  "b":1e0}'),
        ('{"a":1,"b":2}', {"b": None}, '{"a":1}'),
        ('{"a":1}', {"a": None}, "{}"),
        ("{ }", {"a": "1"}, '{"a":1 }'),
        ('{"a":"\\u00e9\\/"\n}', {"b": "{}"}, '{"a":"\\u00e9\\/","b":{}\n}'),
        ('{"a":1,"b":2,"a":3}', {"a": "9"}, '{"b":2,"a":9}'),
        ('{"\\u0061":1}', {"a": "2"}, '{"\\u0061":2}'),
        ('{"a":1}', {"x": None}, '{"a":1}'),
        ('{"a":1}', {'q"': "1"}, '{"a":1,"q\\"":1}'),
    ],
    ids=str,
)
def test_every_other_character_stays(
    text: str, changes: dict[str, str | None], edited: str
) -> None:
    assert parse_object(text.encode()).edited(changes) == edited


def test_an_inner_object_is_edited_in_place() -> None:
    outer = parse_object(b' {"x": {"deep": [1.0]} , "y":0}')
    inner = outer.inner("x")

    assert inner is not None
    assert inner.edited({"new": "true"}) == '{"deep": [1.0],"new":true}'
    assert outer.inner("y") is None
    assert outer.inner("absent") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[1]",
        b'"text"',
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
        '{"a":1}'.encode("utf-16"),
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
    ids=lambda data: repr(data[:24]),
)
def test_invalid_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        parse_object(data)


@given(st.binary(max_size=40) | st.text('{}[]":,\\ u01ae\n', max_size=40).map(str.encode))
def test_any_input_is_parsed_or_refused(data: bytes) -> None:
    try:
        text = parse_object(data).edited({})
    except InvalidRequestError:
        return

    assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"1", b"\xff", b"[" * 100_000],
    ids=["empty", "open", "array", "number", "not-utf-8", "deep"],
)
def test_invalid_json_from_a_worker_is_its_fault(data: bytes) -> None:
    with pytest.raises(UpstreamError):
        read_json_object(data)
