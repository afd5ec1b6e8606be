import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol import Dialect, FrameSplitter, Part, TextChunk, TextChunks
from gateway.protocol.sse import data_of, event_of
from tests.fakes.chunk_dialects import Chat, Completions
from tests.fakes.event_dialects import Messages, Responses
from tests.fakes.reply import Dialect as FakeDialect
from tests.fakes.reply import Reply
from tests.fakes.script import Script

DIALECTS: Mapping[Dialect, FakeDialect] = {
    Dialect.CHAT: Chat(),
    Dialect.COMPLETIONS: Completions(),
    Dialect.RESPONSES: Responses(),
    Dialect.MESSAGES: Messages(),
}
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
TEXTS = (
    'naïve "🙂" \\ \n\t',
    "b",
    '"},"usage":{"completion_tokens":9}},{"content":"x',
    "",
    "caf\u00e9",
)


def texts(dialect: Dialect, *contents: str, **options: Any) -> list[bytes]:
    """Frames with these texts, as a worker writes them."""
    reply = Reply("m", Script(), texts=[*contents, "last"], **options)
    return [DIALECTS[dialect].piece(reply, number) for number in range(len(contents))]


def chat(choice: dict[str, Any] | None = None, /, **top: Any) -> bytes:
    """A chat chunk with text, and anything that a test adds."""
    base = {"index": 0, "delta": {"content": "a"}, "logprobs": None, "finish_reason": None}
    body = {"id": "c", "object": "chat.completion.chunk", "choices": [base | (choice or {})]}
    return b"data: " + json.dumps(body | top).encode() + b"\n\n"


def read(chunks: TextChunks, frame: bytes) -> TextChunk:
    found = chunks.read(frame)
    assert found is not None
    return found


def cut(chunk: TextChunk, *borders: int) -> list[Part]:
    marks = [0, *borders, len(chunk.text)]
    texts = [chunk.text[a:b] for a, b in pairwise(marks)]
    return [Part(chunk, text, number == len(borders)) for number, text in enumerate(texts)]


@each_dialect
def test_a_text_frame_is_split_and_put_together_again(dialect: Dialect) -> None:
    chunks = TextChunks(dialect)

    for text, frame in zip(TEXTS, texts(dialect, *TEXTS), strict=True):
        if (chunk := chunks.read(frame)) is not None:
            assert chunk.text == text
            assert chunks.frames([Part(chunk, chunk.text, True)]) == frame
    assert read(chunks, texts(dialect, TEXTS[0])[0]).text == TEXTS[0]


@each_dialect
def test_frames_of_parts_differ_only_in_their_text(dialect: Dialect) -> None:
    chunks = TextChunks(dialect)
    (frame,) = texts(dialect, "one two")
    parts = cut(read(chunks, frame), 3)

    first, second = (chunks.frames([part]) for part in parts)

    whole = json.loads(data_of(frame))
    for part, text in ((first, "one"), (second, " two")):
        assert event_of(part) == event_of(frame)
        event = json.dumps(json.loads(data_of(part)) | _number(whole))
        assert event == json.dumps(whole).replace("one two", text)


def _number(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key == "sequence_number"}


@given(st.text(max_size=30), st.lists(st.integers(0, 30), max_size=4))
def test_any_split_gives_the_same_text(text: str, borders: list[int]) -> None:
    text = text.encode(errors="ignore").decode()
    for dialect in DIALECTS:
        chunks = TextChunks(dialect)
        read(chunks, texts(dialect, "a")[0])
        chunk = read(chunks, texts(dialect, "b", text)[1])
        marks = sorted(min(border, len(text)) for border in borders)

        sent = b"".join(chunks.frames([part]) for part in cut(chunk, *marks))

        frames = FrameSplitter(10_000).feed(sent)
        assert "".join(read(chunks, frame).text for frame in frames) == text


@each_dialect
def test_adjacent_parts_of_one_chunk_share_a_frame(dialect: Dialect) -> None:
    chunks = TextChunks(dialect)
    one, two = (read(chunks, frame) for frame in texts(dialect, "a b", "c d"))

    sent = chunks.frames([*cut(one, 1), cut(two, 1)[0]])

    frames = FrameSplitter(10_000).feed(sent)
    assert [read(chunks, frame).text for frame in frames] == ["a b", "c"]


@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.COMPLETIONS])
def test_only_the_last_part_carries_the_count(dialect: Dialect) -> None:
    chunks = TextChunks(dialect)
    frames = texts(dialect, "a b", "c", continuous_usage=True)
    parts = [part for frame in frames for part in cut(read(chunks, frame), 1)]

    events = [json.loads(data_of(f)) for f in FrameSplitter(9999).feed(chunks.frames(parts))]

    assert [each.get("usage", {}).get("completion_tokens") for each in events] == [1, 2]
    alone = json.loads(data_of(chunks.frames(parts[:1])))
    assert "usage" not in alone


TRACE = b',"speculation":{"trace":[["target",4],["suffix",0]]}'


def traced(frame: bytes) -> bytes:
    return frame[: -len(b"}\n\n")] + TRACE + b"}\n\n"


@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.COMPLETIONS])
@pytest.mark.parametrize("continuous", [True, False], ids=["counted", "not counted"])
def test_the_trace_stays_with_the_first_part(dialect: Dialect, continuous: bool) -> None:
    frames = texts(dialect, "a b c", "d", "e f", continuous_usage=continuous)

    plain, sent = (sent_in_parts(dialect, group) for group in (frames, map(traced, frames)))

    events = [json.loads(data_of(frame)) for frame in FrameSplitter(9999).feed(sent)]
    entries = {"trace": [["target", 4], ["suffix", 0]]}
    expected = [entries, None, entries, entries, None]
    assert [event.get("speculation") for event in events] == expected
    assert sent.replace(TRACE, b"") == plain


def sent_in_parts(dialect: Dialect, frames: Iterable[bytes]) -> bytes:
    """Send the first of three chunks in two frames, the second whole, the third in two again."""
    chunks = TextChunks(dialect)
    one, two, three = (read(chunks, frame) for frame in frames)
    sent = chunks.frames(cut(one, 1)[:1]) + chunks.frames([*cut(one, 1, 3)[1:], *cut(two)])
    return sent + b"".join(chunks.frames([part]) for part in cut(three, 1))


def test_a_chunk_whose_only_other_member_looks_like_a_trace_is_not_split() -> None:
    chunks = TextChunks(Dialect.CHAT)

    assert chunks.read(chat(speculation={"trace": [["target", 1]], "more": 1})) is None
    assert chunks.read(chat(other={"trace": [["target", 1]]})) is None


def test_events_after_a_split_are_renumbered() -> None:
    chunks, reply = TextChunks(Dialect.RESPONSES), Reply("m", Script(), texts=["a b c", "d"])
    pieces = [Responses().piece(reply, number) for number in range(2)]
    parts = [part for frame in pieces for part in cut(read(chunks, frame), 1)]

    sent = b"".join(chunks.frames([part]) for part in parts)
    sent += b"".join(map(chunks.renumbered, Responses().closing(reply)))

    numbers = [
        json.loads(data_of(frame))["sequence_number"] for frame in FrameSplitter(9999).feed(sent)
    ]
    assert numbers == list(range(4, 4 + len(numbers)))
    inner = b'event: x\ndata: {"response":{"sequence_number":5},"sequence_number":7}\n\n'
    assert chunks.renumbered(inner) == inner.replace(b"7", b"9")
    assert chunks.renumbered(b": note\n\n") == b": note\n\n"
    assert chunks.renumbered(b'data: {"a":1}\n\n') == b'data: {"a":1}\n\n'


@pytest.mark.parametrize(
    "frame",
    [
        chat({"delta": {"role": "assistant", "content": "a"}}),
        chat({"delta": {"content": "a", "reasoning": "b"}}),
        chat({"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}}),
        chat({"delta": {"content": "a", "tool_calls": [{"index": 0}]}}),
        chat({"finish_reason": "stop"}),
        chat({"logprobs": {"content": []}}),
        chat({"index": 1}),
        chat({"what_is_this": 1}),
        chat(choices=[]),
        chat(choices=[{"index": 0, "delta": {"content": "a"}}] * 2),
        b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"a"\n\n',
        b"data: [DONE]\n\n",
        b": comment\n\n",
        b'data: [{"content":"a"}]\n\n',
    ],
    ids=range(15),
)
def test_a_frame_with_more_than_text_is_not_split(frame: bytes) -> None:
    fresh, learnt = TextChunks(Dialect.CHAT), TextChunks(Dialect.CHAT)
    read(learnt, chat())

    assert fresh.read(frame) is None
    assert learnt.read(frame) is None


@pytest.mark.parametrize(
    ("dialect", "frame"),
    [
        (Dialect.RESPONSES, b'event: response.function_call_arguments.delta\ndata: {"type":'
         b'"response.function_call_arguments.delta","delta":"{","sequence_number":4}\n\n'),
        (Dialect.RESPONSES, b'event: response.output_text.delta\ndata: {"type":'
         b'"response.output_text.delta","delta":"a"}\n\n'),
        (Dialect.RESPONSES, b'event: response.output_text.delta\ndata: {"type":"response.'
         b'output_text.delta","delta":"a","logprobs":[{"token":"a"}],"sequence_number":4}\n\n'),
        (Dialect.MESSAGES, b'event: content_block_delta\ndata: {"type":"content_block_delta",'
         b'"index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}\n\n'),
        (Dialect.MESSAGES, b'event: content_block_start\ndata: {"type":"content_block_start",'
         b'"index":0,"content_block":{"type":"text","text":""}}\n\n'),
        (Dialect.PLAIN, b'data: {"text":"a"}\n\n'),
        (Dialect.RESPONSES, b'event: \xff\ndata: {"type":"a","delta":"a","sequence_number":4}\n\n'),
        (Dialect.MESSAGES, b'event: content_block_delta\ndata: {"type":"content_block_delta",'
         b'"index":0,"delta":{"type":"text_delta","text":"\xff"}}\n\n'),
    ],
    ids=["arguments", "no-number", "logprobs", "tool", "block", "unknown-endpoint",
         "name-not-utf-8", "text-not-utf-8"],
)  # fmt: skip
def test_other_events_are_not_split(dialect: Dialect, frame: bytes) -> None:
    assert TextChunks(dialect).read(frame) is None
