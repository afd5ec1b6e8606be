"""A stream that is cut anywhere and resumed gives the client what one stream would have given."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamError
from gateway.protocol import resumption
from gateway.protocol.endpoints import Dialect
from gateway.protocol.request import InferenceRequest
from gateway.protocol.resumption import Progress, Seam
from gateway.protocol.stream import FrameKind, StreamReader
from tests.unit.gateway.requests import CHAT, COMPLETIONS, request_to

WORDS = ["Once", " upon", " a", " naïve", " 🙂", " time", " there", "", " was", "."]
DONE = b"data: [DONE]\n\n"


def asked(endpoint: Any = CHAT, **fields: Any) -> InferenceRequest:
    return replace(request_to(endpoint, stream=True, **fields), resumable=True)


def frame(content: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(content, separators=(',', ':'))}\n\n".encode()


def answer(
    borders: list[int], *, endpoint: Any, begin: int = 0, held: int = 0, created: int = 1
) -> list[bytes]:
    """The frames of an answer of `WORDS`, a word a token, as our worker streams it.

    Args:
        borders: Numbers of words after which a chunk ends.
        endpoint: Its dialect.
        begin: The first chunk has at least so many words: they were resumed.
        held: So many characters of each chunk but the last come with the next one.
        created: Date of the chunks.
    """
    is_chat = endpoint.dialect is Dialect.CHAT
    head = {"id": "x", "created": created}
    frames = []
    if is_chat:
        delta = {"role": "assistant", "content": ""}
        frames = [frame({**head, "choices": [{"index": 0, "delta": delta}], "usage": usage(0)})]
    sent_text, sent = 0, 0
    ends = sorted({end for end in borders if begin < end < len(WORDS)} | {len(WORDS)})
    for end in ends:
        is_last = end == len(WORDS)
        text = "".join(WORDS[:end])
        text = text if is_last else text[: max(sent_text, len(text) - held)]
        new = text[sent_text:]
        choice = {
            "index": 0,
            **({"delta": {"content": new}} if is_chat else {"text": new}),
            "logprobs": {"content": list(range(sent, end))},
            "finish_reason": "stop" if is_last else None,
        }
        chunk = {**head, "choices": [choice], "usage": usage(end)}
        chunk["specgate_ids"] = list(range(sent, end))
        frames.append(frame(chunk))
        sent_text, sent = len(text), end
    return [*frames, frame({**head, "choices": [], "usage": usage(len(WORDS))}), DONE]


def usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 5, "total_tokens": 5 + tokens, "completion_tokens": tokens}


def read(reader: StreamReader, frames: list[bytes]) -> list[bytes]:
    relayed = [reader.read(one) for one in frames]
    return [one.frame for one in relayed if one.frame]


def content_of(frames: list[bytes]) -> tuple[str, list[int], list[str], set[int]]:
    """Text, entries of log-probabilities, finish reasons and dates."""
    text, entries, reasons, dates = "", [], [], set()
    for one in frames:
        if one == DONE:
            continue
        chunk = json.loads(one[6:])
        dates.add(chunk["created"])
        for choice in chunk["choices"]:
            text += choice.get("text") or choice.get("delta", {}).get("content") or ""
            entries += (choice.get("logprobs") or {"content": []})["content"]
            reasons += [choice["finish_reason"]] if choice.get("finish_reason") else []
    return text, entries, reasons, dates


BORDERS = st.lists(st.integers(1, len(WORDS)), max_size=8)


@given(BORDERS, BORDERS, st.integers(0, 20), st.integers(0, 4), st.integers(0, 4), st.booleans())
def test_a_stream_that_is_cut_anywhere_goes_on(
    first: list[int], second: list[int], cut: int, held: int, held_again: int, is_chat: bool
) -> None:
    endpoint = CHAT if is_chat else COMPLETIONS
    request = asked(endpoint, stream_options={"include_usage": True})
    reader = StreamReader(request)
    frames = answer(first, endpoint=endpoint, held=held)
    got = read(reader, frames[: min(cut, len(frames) - 1)])
    progress = reader.progress
    assert progress is not None
    assert b"specgate" not in b"".join(got)

    if progress.has_text_end:
        got.append(reader.end)
    else:
        assert progress.can_go_on
        tokens = progress.tokens
        resumed = request.resuming(tokens)
        after = StreamReader(resumed, progress if got else None)
        more = answer(second, endpoint=endpoint, begin=len(tokens), held=held_again, created=2)
        got += read(after, more)
        assert after.generated_tokens == len(WORDS)

    text, entries, reasons, dates = content_of(
        b"".join(got).replace(b"\n\ndata", b"\n\n\0data").split(b"\0")
    )
    assert text == "".join(WORDS)
    assert entries == list(range(len(WORDS)))
    assert reasons == ["stop"]
    assert len(dates) == 1
    assert got[-1].endswith(DONE)


def test_a_worker_that_begins_with_other_tokens_is_refused() -> None:
    reader = StreamReader(asked())
    read(reader, answer([3, 5], endpoint=CHAT)[:3])
    assert reader.progress is not None
    after = StreamReader(reader_request(reader), reader.progress)
    other = answer([7], endpoint=CHAT)
    other[1] = other[1].replace(b'"specgate_ids":[0,1,2', b'"specgate_ids":[0,9,2')

    with pytest.raises(UpstreamError, match="did not go on"):
        read(after, other)


def reader_request(reader: StreamReader) -> InferenceRequest:
    assert reader.progress is not None
    return asked().resuming(reader.progress.tokens)


def test_reasoning_is_cut_apart_from_the_text() -> None:
    def piece(ids: list[int], **delta: str) -> bytes:
        return frame({"created": 1, "choices": [{"delta": delta}], "specgate_ids": ids})

    reader = StreamReader(asked())
    read(
        reader, [piece([1], reasoning="Hm, "), piece([2], reasoning="so"), piece([3], content="A")]
    )
    after = StreamReader(reader_request(reader), reader.progress)

    got = read(
        after, [piece([1, 2, 3, 4], reasoning="Hm, so", content="AB"), piece([5], content="C")]
    )

    deltas = [json.loads(one[6:])["choices"][0]["delta"] for one in got]
    assert "".join(one.get("reasoning", "") for one in deltas) == ""
    assert "".join(one["content"] for one in deltas) == "BC"


ARGUMENTS = ['{"city": "', "Łódź", '", "days', '": 3}']
CALLS: list[list[dict[str, Any]]] = [
    [{"index": 0, "id": "a", "type": "function", "function": {"name": "weather"}}],
    *([{"index": 0, "function": {"arguments": text}}] for text in ARGUMENTS),
    [
        {"index": 1, "id": "b", "type": "function", "function": {"name": "weather"}},
        {"index": 1, "function": {"arguments": ARGUMENTS[0]}},
    ],
    *([{"index": 1, "function": {"arguments": text}}] for text in ARGUMENTS[1:]),
]


def calling(begin: int, end: int, *, ids: list[int] | None = None) -> bytes:
    """A chunk with a few pieces of `CALLS`, by default with an id for each."""
    delta = {"tool_calls": [piece for pieces in CALLS[begin:end] for piece in pieces]}
    chunk = {"created": 1, "choices": [{"delta": delta}]}
    return frame({**chunk, "specgate_ids": list(range(begin, end)) if ids is None else ids})


def calls_of(frames: list[bytes]) -> dict[int, tuple[str, list[str], list[str]]]:
    """Arguments, names and ids of each call."""
    found: dict[int, tuple[str, list[str], list[str]]] = {}
    for one in frames:
        for piece in json.loads(one[6:])["choices"][0]["delta"].get("tool_calls", []):
            arguments, names, ids = found.get(piece["index"], ("", [], []))
            function = piece["function"]
            found[piece["index"]] = (
                arguments + function.get("arguments", ""),
                [*names, *filter(None, [function.get("name")])],
                [*ids, *filter(None, [piece.get("id")])],
            )
    return found


@given(st.integers(0, len(CALLS) - 1), st.integers(1, len(CALLS)))
def test_tool_calls_go_on(cut: int, first: int) -> None:
    whole = "".join(ARGUMENTS)
    reader = StreamReader(asked())
    got = read(reader, [calling(at, at + 1) for at in range(cut)])
    after = StreamReader(reader_request(reader), reader.progress if got else None)
    first = max(first, cut + 1)

    got += read(
        after, [calling(0, first), *(calling(at, at + 1) for at in range(first, len(CALLS)))]
    )

    assert calls_of(got) == {0: (whole, ["weather"], ["a"]), 1: (whole, ["weather"], ["b"])}


def test_a_tool_call_that_a_parser_reads_later_is_cut_later() -> None:
    reader = StreamReader(asked())
    got = read(reader, [calling(at, at + 1) for at in range(3)])
    after = StreamReader(reader_request(reader), reader.progress)

    got += read(after, [calling(0, 1, ids=[0, 1, 2, 3]), calling(1, 3, ids=[]), calling(3, 5)])

    assert calls_of(got) == {0: ("".join(ARGUMENTS), ["weather"], ["a"])}


@pytest.mark.parametrize("function", [{"name": "water"}, {"name": "weather", "arguments": "{}"}])
def test_a_tool_call_that_goes_on_otherwise_is_the_workers_error(function: dict[str, str]) -> None:
    reader = StreamReader(asked())
    read(reader, [calling(at, at + 1) for at in range(3)])
    after = StreamReader(reader_request(reader), reader.progress)
    delta = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}

    with pytest.raises(UpstreamError, match="the tool call"):
        read(after, [frame({"choices": [{"delta": delta}], "specgate_ids": [0, 1, 2, 3]})])


def test_a_tool_call_that_is_passed_over_is_the_workers_error() -> None:
    reader = StreamReader(asked())
    read(reader, [calling(at, at + 1) for at in range(3)])
    after = StreamReader(reader_request(reader), reader.progress)

    with pytest.raises(UpstreamError, match="the tool call"):
        read(after, [calling(5, 6, ids=[0, 1, 2, 3, 4, 5])])


def test_an_answer_that_ends_before_its_tool_call_is_the_workers_error() -> None:
    reader = StreamReader(asked())
    read(reader, [calling(at, at + 1) for at in range(3)])
    after = StreamReader(reader_request(reader), reader.progress)
    last = {"choices": [{"delta": {}, "finish_reason": "stop"}], "specgate_ids": [0, 1, 2]}

    with pytest.raises(UpstreamError, match="the tool call"):
        read(after, [frame(last)])


def test_without_ids_a_stream_goes_on_only_before_its_text() -> None:
    def piece(text: str) -> bytes:
        return frame({"created": 1, "choices": [{"delta": {"content": text}}]})

    progress = Progress()

    progress.take(piece(""))
    assert progress.can_go_on
    progress.take(piece("a"))
    assert not progress.can_go_on


def test_an_unknown_shape_is_passed_on_and_not_resumed() -> None:
    progress = Progress()
    odd = frame({"choices": [{"delta": {"content": ["a"]}}], "specgate_ids": [1]})

    assert progress.take(odd) == frame({"choices": [{"delta": {"content": ["a"]}}]})
    assert not progress.can_go_on


def test_comments_and_errors_pass_the_seam() -> None:
    reader = StreamReader(asked())
    read(reader, answer([3, 5], endpoint=CHAT)[:3])
    after = StreamReader(reader_request(reader), reader.progress)

    assert after.read(b": hello\n\n").frame == b": hello\n\n"
    assert after.read(b": hello\n\n").kind is FrameKind.SERVICE


@pytest.mark.parametrize(
    "ids", [b"", b"a", b"1, , 2", b"-1", b"1.5", b"1" * 30, b"[1]"], ids=lambda ids: ids.decode()
)
def test_ids_that_are_none_are_not_taken(ids: bytes) -> None:
    progress = Progress()
    odd = b'data: {"choices":[{"text":"a"}],"specgate_ids":[' + ids + b"]}\n\n"

    assert progress.take(odd) == odd
    assert progress.tokens == []
    assert not progress.can_go_on


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": [{"delta": "a"}], "specgate_ids": [0]},
        {"choices": [{"delta": {"content": 5}}], "specgate_ids": [0]},
        {"choices": [{"delta": {"content": "a"}}], "specgate_ids": 0},
        {"choices": [{"delta": {"content": "a"}, "logprobs": 3}], "specgate_ids": [0]},
        {"choices": [{"delta": {"tool_calls": [{}]}}], "specgate_ids": [0]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": 1}]}}]},
        {"choices": 1},
    ],
    ids=lambda chunk: json.dumps(chunk),
)
def test_a_malformed_chunk_at_the_seam_is_the_workers_error(chunk: dict[str, Any]) -> None:
    reader = StreamReader(asked())
    read(reader, answer([3, 5], endpoint=CHAT)[:3])
    after = StreamReader(reader_request(reader), reader.progress)

    with pytest.raises(UpstreamError):
        after.read(frame(chunk))


@pytest.mark.parametrize(
    "value",
    [b'"\xf0gprobs"', b'"\xff"', b'"a","x":' + b"[" * 3000 + b"]" * 3000],
    ids=["cut character", "no character", "deep"],
)
def test_what_no_json_reader_takes_is_not_resumed(value: bytes) -> None:
    odd = b'data: {"choices":[{"text":' + value + b"}]}\n\n"
    progress = Progress()

    assert progress.take(odd) == odd
    assert not progress.can_go_on


def test_a_frame_that_the_reader_refuses_does_not_keep_the_answer_from_going_on() -> None:
    reader = StreamReader(asked())
    read(reader, answer([3, 5], endpoint=CHAT)[:3])
    assert reader.progress is not None
    tokens = reader.progress.tokens

    with pytest.raises(UpstreamError):
        reader.read(b'data: {"choices":[{"delta":{"content":"cut off\n\n')

    assert reader.progress.can_go_on
    assert reader.progress.tokens == tokens


@pytest.mark.parametrize(
    "value", [b'"\xf0gprobs"', b'"a","x":"\xff"', b'"a","x":' + b"[" * 3000 + b"]" * 3000]
)
def test_what_no_json_reader_takes_at_the_seam_is_the_workers_error(value: bytes) -> None:
    before = Progress()
    before.take(frame({"choices": [{"text": "a"}], "specgate_ids": [0]}))

    with pytest.raises(UpstreamError, match="malformed"):
        Seam(before).cut(b'data: {"choices":[{"text":' + value + b'}],"specgate_ids":[0]}\n\n')


def test_an_answer_beyond_all_bounds_is_not_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumption, "_MOST_BYTES", 10)
    progress = Progress()
    for _ in range(6):
        progress.take(frame({"choices": [{"text": "a"}], "specgate_ids": [100]}))

    assert not progress.can_go_on
    assert progress.tokens == []
