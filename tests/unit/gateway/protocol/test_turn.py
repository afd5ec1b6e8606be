import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import Raw

from gateway.errors import InvalidRequestError, UpstreamError
from gateway.protocol import StreamReader, TenantDigests, Turn, forwarded_body, items_of
from gateway.protocol.answer import read_answer
from gateway.protocol.turn import joined, marked, read_facts
from tests.unit.gateway.requests import CHAT, RESPONSES, request_to

_DIGESTS = TenantDigests(b"secret")


def forwarded(**fields: Any) -> dict[str, Any]:
    request = request_to(RESPONSES, **fields)
    body: dict[str, Any] = json.loads(forwarded_body(request, tenant="acme", digests=_DIGESTS))
    return body


@pytest.mark.parametrize(
    ("fields", "turn"),
    [
        ({}, Turn(None, None)),
        ({"store": True}, Turn(None, True)),
        ({"previous_response_id": "r1"}, Turn("r1", None)),
        ({"previous_response_id": "r1", "store": False}, Turn("r1", False)),
        ({"store": False}, None),
        ({"background": True, "previous_response_id": "r1"}, None),
        ({"store": None, "previous_response_id": None, "background": False}, Turn(None, None)),
    ],
    ids=str,
)
def test_a_request_is_a_turn_if_it_is_stored_or_continues(
    fields: dict[str, Any], turn: Turn | None
) -> None:
    assert request_to(RESPONSES, **fields).turn == turn
    assert request_to(CHAT, **fields).turn is None


@pytest.mark.parametrize("field", ["previous_response_id", "store", "background"])
def test_a_field_of_the_wrong_type_is_named(field: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        request_to(RESPONSES, **{field: [1]})

    assert caught.value.param == field


def test_the_worker_gets_neither_the_id_nor_the_wish_to_store() -> None:
    body = forwarded(input="hi", previous_response_id="r1", store=True)

    assert body["input"] == "hi"
    assert body["store"] is False
    assert "previous_response_id" not in body


@pytest.mark.parametrize("fields", [{"store": False}, {"background": True, "store": True}], ids=str)
def test_what_is_no_turn_is_forwarded_as_it_is(fields: dict[str, Any]) -> None:
    assert forwarded(input="hi", **fields).items() >= fields.items()


@pytest.mark.parametrize(
    ("value", "items"),
    [
        (b'"a\\u00e4"', b'[{"role":"user","content":"a\\u00e4"}]'),
        (b"[1, 2 ]", b"[1, 2 ]"),
        (b" [] ", b"[]"),
    ],
    ids=["string", "array", "empty"],
)
def test_input_becomes_items(value: bytes, items: bytes) -> None:
    assert items_of(Raw(value)) == items


@pytest.mark.parametrize("value", [None, b"null", b"7", b"{}"], ids=repr)
def test_other_input_is_refused(value: bytes | None) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        items_of(None if value is None else Raw(value))

    assert caught.value.param == "input"


def test_arrays_are_joined_as_they_are_written() -> None:
    assert joined([b"[ 1.50,2 ]", b"[]", b"[ ]", b'["]["]']) == b'[1.50,2,"]["]'
    assert joined([]) == b"[]"


def test_the_history_goes_before_the_input_and_counts_in_the_estimate() -> None:
    request = request_to(RESPONSES, input="next", previous_response_id="r1")
    history = (b'[{"role":"user","content":"one"}]', b'[{"type":"message"}]')
    turn = Turn("r1", None, history)
    continued = replace(request, turn=turn)

    body = json.loads(forwarded_body(continued, tenant="acme", digests=_DIGESTS))

    assert body["input"] == [
        {"role": "user", "content": "one"},
        {"type": "message"},
        {"role": "user", "content": "next"},
    ]
    added = continued.estimated_prompt_tokens - request.estimated_prompt_tokens
    assert added == pytest.approx(sum(map(len, history)) / 4, abs=1)


def test_a_response_is_marked_and_otherwise_kept() -> None:
    response = b'{"id":"r2","previous_response_id":null,"temperature":1.50,"text":"\\u00e4"}'

    assert marked(response, Turn("r1", None)) == (
        b'{"id":"r2","previous_response_id":"r1","temperature":1.50,"text":"\\u00e4","store":true}'
    )


def test_a_whole_answer_is_marked_only_if_it_is_a_turns() -> None:
    answer = b'{"id":"r2","usage":null}'
    turn = request_to(RESPONSES, previous_response_id="r1", store=False)

    found = json.loads(read_answer(turn, answer).body)

    assert (found["previous_response_id"], found["store"]) == ("r1", False)
    assert read_answer(request_to(RESPONSES, store=False), answer).body is answer


def event(name: str, **data: Any) -> bytes:
    text = json.dumps({**data, "type": name}, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n".encode()


@pytest.mark.parametrize("end", ["response.completed", "response.incomplete"])
def test_events_with_a_response_are_marked_and_the_last_is_kept(end: str) -> None:
    reader = StreamReader(request_to(RESPONSES, previous_response_id="r1", stream=True))
    delta = event("response.output_text.delta", delta="hi")
    shown = [
        reader.read(frame).frame or b""
        for frame in (
            event("response.created", response={"id": "r2"}, sequence_number=0),
            event("response.in_progress", response={"id": "r2"}, sequence_number=1),
            delta,
            event(end, response={"id": "r2", "usage": None}, sequence_number=3),
        )
    ]

    mark = {"previous_response_id": "r1", "store": True}
    assert shown[0] == event("response.created", response={"id": "r2"} | mark, sequence_number=0)
    assert json.loads(shown[1].split(b"data: ")[1])["response"] == {"id": "r2"} | mark
    assert shown[2] == delta
    assert reader.response is not None
    assert json.loads(reader.response) == {"id": "r2", "usage": None} | mark
    assert reader.response in shown[3]


def test_an_event_over_several_lines_stays_one_event() -> None:
    reader = StreamReader(request_to(RESPONSES, stream=True))
    frame = b'event: response.created\ndata: {"response":{"a":\ndata: [1,\ndata: 2]}}\n\n'

    shown = reader.read(frame).frame

    assert shown is not None
    assert shown.count(b"\n") == 3
    data = json.loads(shown.splitlines()[1].removeprefix(b"data: "))
    assert data["response"] == {"a": [1, 2], "previous_response_id": None, "store": True}


@pytest.mark.parametrize("data", [b'{"a":1}', b'{"response":7}', b'{"response":null}'], ids=repr)
def test_an_event_without_its_response_is_the_workers_fault(data: bytes) -> None:
    reader = StreamReader(request_to(RESPONSES, stream=True))

    with pytest.raises(UpstreamError):
        reader.read(b"event: response.created\ndata: " + data + b"\n\n")


def test_no_frame_is_touched_without_a_turn() -> None:
    reader = StreamReader(request_to(RESPONSES, store=False, stream=True))
    frame = event("response.completed", response={"id": "r2", "usage": None})

    assert reader.read(frame).frame is frame
    assert reader.response is None


@pytest.mark.parametrize(
    "response",
    [b'{"id":"r"}', b'{"id":1,"status":"completed","output":[]}', b"[]", b'{"id":"r","output":1}'],
    ids=repr,
)
def test_a_response_without_its_facts_is_the_workers_fault(response: bytes) -> None:
    with pytest.raises(UpstreamError):
        read_facts(response)
