import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import GatewayError, UpstreamError
from gateway.protocol.stream import FrameKind, Relayed, StreamReader
from gateway.types import Acceptance, SourceCount, Usage
from tests.fakes.coded_steps import coded_step
from tests.unit.gateway.requests import CHAT, EMBEDDINGS, MESSAGES, RESPONSES, request_to

DONE = b"data: [DONE]\n\n"
SPECULATION = {
    "num_spec_steps": 4,
    "num_draft_tokens": 10,
    "num_accepted_draft_tokens": 6,
    "per_step_drafted": [4, 2, 2, 2],
}


def frame(content: dict[str, Any], event: str = "") -> bytes:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(content, separators=(',', ':'))}\n\n".encode()


def chunk(text: str, **more: Any) -> bytes:
    return frame({"id": "x", "choices": [{"index": 0, "delta": {"content": text}}], **more})


def usage(tokens: int) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": 5, "total_tokens": 5 + tokens, "completion_tokens": tokens}}


def usage_chunk(tokens: int) -> bytes:
    metrics = {"speculative_decoding": SPECULATION}
    return frame({"id": "x", "choices": [], **usage(tokens), "metrics": metrics})


def chat_reader(**fields: Any) -> StreamReader:
    return StreamReader(request_to(CHAT, stream=True, **fields))


def test_usage_that_the_client_did_not_ask_for_is_removed() -> None:
    reader = chat_reader()

    relayed = [
        reader.read(piece)
        for piece in (
            chunk("", **usage(0)),
            chunk("a", **usage(1)),
            chunk("bc", **usage(3)),
            usage_chunk(3),
            DONE,
        )
    ]

    assert relayed == [
        Relayed(chunk(""), FrameKind.SERVICE, 0),
        Relayed(chunk("a"), FrameKind.TOKENS, 1),
        Relayed(chunk("bc"), FrameKind.TOKENS, 2),
        Relayed(None, FrameKind.SERVICE),
        Relayed(DONE, FrameKind.END),
    ]
    assert reader.usage == Usage(5, 3)
    assert reader.acceptance == Acceptance(4, 2.5, {"native": SourceCount(10, 6)})


def last_chunk(text: str, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}
    return frame({"id": "x", "choices": [choice], **more})


PIECES = st.one_of(
    st.integers(0, 9).map(lambda tokens: chunk("a", **usage(tokens))),
    st.integers(0, 9).map(lambda tokens: chunk('"choices":[] ,"usage":{', **usage(tokens))),
    st.integers(1, 9).map(lambda tokens: last_chunk("x", **usage(tokens))),
    st.integers(1, 9).map(lambda tokens: frame({"id": "x", "choices": [], **usage(tokens)})),
    st.sampled_from(
        [
            chunk("a"),
            chunk("a", usage=None),
            chunk("a", usage={"completion_tokens": "many"}),
            chunk("a", **usage(2), more=[1]),
            frame({"id": "x", **usage(1)}),
            frame({"usage": usage(1)["usage"], "choices": []}),
            b"data:" + chunk("a", **usage(3))[6:],
            b"event: x\n" + chunk("a", **usage(3)),
            b"data: {\ndata: " + chunk("a", **usage(3))[7:],
            b": comment\n\n",
            DONE,
            frame({"error": {"message": "boom"}, **usage(1)}),
            frame({"object": "error", "message": "boom", **usage(1)}),
            b"data: {broken\n\n",
        ]
    ),
)
ASKED = [
    {},
    {"stream_options": {"include_usage": True}},
    {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    {"n": 2},
]


class SlowReader:
    """Reads a chat stream with the standard library's JSON, without a fast path."""

    def __init__(self, *, n: int = 1, stream_options: dict[str, bool] | None = None) -> None:
        options = stream_options or {}
        self.wants_usage = options.get("include_usage", False)
        self.counts = n == 1
        self.cuts = self.counts and not options.get("continuous_usage_stats", False)
        self.held = b""
        self.running = 0

    def read(self, piece: bytes) -> Relayed:
        """Raises ValueError where the reader raises a `GatewayError`."""
        data = "\n".join(re.findall(r"^data: ?(.*)$", piece.decode(), re.MULTILINE))
        found = json.loads(data) if data.startswith("{") else {}
        if "error" in found or found.get("object") == "error":
            raise ValueError("an error")
        if found.get("choices") == [] and isinstance(found.get("usage"), dict):
            held, self.held = self.held, b""
            return Relayed(piece if self.wants_usage else held or None, FrameKind.SERVICE)
        held, self.held = self.held, b""
        if not found:
            return Relayed(held + piece, FrameKind.END if data else FrameKind.SERVICE)
        counted = (found.get("usage") or {}).get("completion_tokens")
        if not self.counts or not isinstance(counted, int):
            return Relayed(held + piece, FrameKind.TOKENS)
        new_tokens, self.running = counted - self.running, counted
        kind = FrameKind.TOKENS if counted else FrameKind.SERVICE
        if self.cuts:
            usage = json.dumps(found["usage"], separators=(",", ":")).encode()
            piece = piece.replace(b',"usage":' + usage, b"")
        if self.cuts and not self.wants_usage and b'"finish_reason":"' in piece:
            self.held = piece
            return Relayed(held or None, kind, new_tokens)
        return Relayed(held + piece, kind, new_tokens)


@given(st.sampled_from(ASKED), st.lists(PIECES, max_size=8))
def test_any_stream_is_read_as_by_a_slow_reader(asked: Any, pieces: list[bytes]) -> None:
    reader, slow = chat_reader(**asked), SlowReader(**asked)
    for number, piece in enumerate(pieces, 1):
        try:
            expected = slow.read(piece)
        except ValueError:
            with pytest.raises(GatewayError):
                reader.read(piece)
            return

        assert reader.read(piece) == expected
        assert reader.frames_read == number

    assert reader.take_held() == slow.held


def test_the_usage_chunk_reports_the_outcome_of_a_prediction() -> None:
    request = request_to(CHAT, stream=True, stream_options={"include_usage": True})
    reader = StreamReader(replace(request, predicted_tokens=(1,) * 20))
    steps = {
        **SPECULATION,
        "per_step_drafted": [coded_step(4, "prediction"), 2, 2, 2],
        "per_step_accepted": [3, 2, 1, 0],
    }
    metrics = {"speculative_decoding": steps}

    text = reader.read(chunk("a", **usage(1)))
    last = reader.read(frame({"id": "x", "choices": [], **usage(1), "metrics": metrics}))

    assert b"prediction" not in (text.frame or b"")
    assert last.frame is not None
    answer = json.loads(last.frame.removeprefix(b"data: "))
    assert answer["usage"]["completion_tokens_details"] == {
        "accepted_prediction_tokens": 3,
        "rejected_prediction_tokens": 17,
    }
    assert answer["metrics"]["speculative_decoding"] == {
        **steps,
        "per_step_drafted": [4, 2, 2, 2],
        "sources": {
            "native": {"drafted": 6, "accepted": 3},
            "suffix": {"drafted": 4, "accepted": 3},
        },
    }
    assert reader.acceptance is not None
    assert reader.acceptance.predicted == 3


@pytest.mark.parametrize(
    ("n", "tokens"), [(1, 2), (2, None)], ids=["one-choice", "several-choices"]
)
def test_running_usage_that_the_client_asked_for_stays(n: int, tokens: int | None) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    text = chunk("ab", **usage(2))

    assert chat_reader(n=n, stream_options=options).read(text) == Relayed(
        text, FrameKind.TOKENS, tokens
    )


@pytest.mark.parametrize(
    "piece",
    [
        b"data: {oops}\n\n",
        b"data: [1]\n\n",
        b"data: \xff\n\n",
        b'data: {"choices":[{}],"usage":{oops}}\n\n',
        b'data: {"choices":[],"usage":{oops}}\n\n',
        b"data: " + b"[" * 100_000 + b"\n\n",
    ],
    ids=["no-json", "no-object", "no-utf-8", "bad-usage", "bad-usage-chunk", "deep"],
)
@pytest.mark.parametrize("endpoint", [CHAT, RESPONSES, MESSAGES], ids=lambda e: e.path)
def test_a_chunk_that_is_no_json_object_is_the_workers_fault(endpoint: Any, piece: bytes) -> None:
    with pytest.raises(UpstreamError):
        StreamReader(request_to(endpoint, stream=True)).read(piece)


@pytest.mark.parametrize(
    ("endpoint", "piece"),
    [
        (RESPONSES, b"event: response.completed\n\n"),
        (MESSAGES, b"event: message_stop\n\n"),
        (RESPONSES, frame({"type": "response.completed"}, "response.created")),
        (RESPONSES, frame({"type": "response.completed"})),
    ],
    ids=["responses-no-data", "messages-no-data", "two-names", "no-name"],
)
def test_an_end_that_the_sdk_reads_otherwise_is_the_workers_fault(
    endpoint: Any, piece: bytes
) -> None:
    with pytest.raises(UpstreamError):
        StreamReader(request_to(endpoint, stream=True)).read(piece)


VLLM_ERROR = {"message": "boom in /opt/engine/core.py", "type": "InternalServerError", "code": 500}


@pytest.mark.parametrize(
    ("endpoint", "piece"),
    [
        (CHAT, frame({"error": VLLM_ERROR})),
        (CHAT, frame({"object": "error", **VLLM_ERROR})),
        (RESPONSES, frame({"error": VLLM_ERROR})),
        (RESPONSES, frame({"error": VLLM_ERROR}, "error")),
        (RESPONSES, frame({"response": {"error": VLLM_ERROR}}, "response.failed")),
        (MESSAGES, frame({"type": "error", "error": VLLM_ERROR}, "error")),
    ],
    ids=["chat", "chat-flat", "responses-bare", "responses", "responses-failed", "messages"],
)
def test_an_error_in_the_stream_reveals_no_internals(endpoint: Any, piece: bytes) -> None:
    with pytest.raises(UpstreamError, match="The engine failed"):
        StreamReader(request_to(endpoint, stream=True)).read(piece)


@pytest.mark.parametrize(
    ("piece", "kind"),
    [
        (b"data:[DONE]\r\n\r\n", FrameKind.END),
        (b": ping\n" + DONE, FrameKind.END),
        (b": ping\n\n", FrameKind.SERVICE),
        (b"retry: 5\n\n", FrameKind.SERVICE),
    ],
)
def test_comments_and_the_end_pass_unchanged(piece: bytes, kind: FrameKind) -> None:
    assert chat_reader().read(piece) == Relayed(piece, kind)
    if kind is FrameKind.SERVICE:
        for endpoint in (RESPONSES, MESSAGES, EMBEDDINGS):
            reader = StreamReader(request_to(endpoint, stream=True))
            assert reader.read(piece) == Relayed(piece, kind)


def test_a_model_that_writes_about_errors_raises_none() -> None:
    text = 'data: {"error": 1}\n\n"choices":[] "usage":{ [DONE]'

    relayed = chat_reader().read(chunk(text, **usage(9)))

    assert relayed == Relayed(chunk(text), FrameKind.TOKENS, 9)


@pytest.mark.parametrize(
    ("endpoint", "events", "kinds"),
    [
        (
            RESPONSES,
            {
                "response.created": {},
                "response.output_text.delta": {"delta": "a"},
                "response.completed": {
                    "response": {"usage": {"input_tokens": 5, "output_tokens": 3}}
                },
            },
            "service tokens end",
        ),
        (
            MESSAGES,
            {
                "message_start": {},
                "content_block_delta": {"delta": {"text": "a"}},
                "message_delta": {"usage": {"input_tokens": 5, "output_tokens": 3}},
                "message_stop": {},
            },
            "service tokens service end",
        ),
    ],
    ids=["responses", "messages"],
)
def test_events_are_relayed_and_end_with_usage(
    endpoint: Any, events: dict[str, dict[str, Any]], kinds: str
) -> None:
    reader = StreamReader(request_to(endpoint, stream=True, store=False))
    pieces = [frame({"type": event, **more}, event) for event, more in events.items()]

    relayed = [reader.read(piece) for piece in pieces]

    assert [each.frame for each in relayed] == pieces
    assert " ".join(each.kind.value for each in relayed) == kinds
    assert (reader.usage, reader.frames_read) == (Usage(5, 3), len(pieces))


def test_the_last_chunk_gets_the_fingerprint_of_the_usage_chunk() -> None:
    reader = chat_reader()

    relayed = [
        reader.read(last_chunk("a", **usage(1))),
        reader.read(frame({"choices": [], **usage(1), "system_fingerprint": "vllm-1"})),
        reader.read(DONE),
    ]

    assert relayed == [
        Relayed(None, FrameKind.TOKENS, 1),
        Relayed(last_chunk("a", system_fingerprint="vllm-1"), FrameKind.SERVICE),
        Relayed(DONE, FrameKind.END),
    ]
    assert reader.take_held() == b""


def test_a_held_chunk_is_sent_with_the_next_frame_if_it_is_not_usage() -> None:
    reader = chat_reader()
    reader.read(last_chunk("a", **usage(1)))

    relayed = [reader.read(last_chunk("b", **usage(2))), reader.read(DONE)]

    assert relayed == [
        Relayed(last_chunk("a"), FrameKind.TOKENS, 1),
        Relayed(last_chunk("b") + DONE, FrameKind.END),
    ]
    reader.read(last_chunk("c", **usage(3)))
    with pytest.raises(GatewayError):
        reader.read(frame({"error": VLLM_ERROR}))
    assert reader.take_held() == last_chunk("c")


def test_an_unknown_stream_passes_unread() -> None:
    piece, reader = b"data: {oops\n\n", StreamReader(request_to(EMBEDDINGS, stream=True))

    assert reader.read(piece) == Relayed(piece, FrameKind.SERVICE)
    assert (reader.needs_end_frame, chat_reader().needs_end_frame) == (False, True)


PARTS = [chunk("", **usage(0)), chunk("a", **usage(1)), chunk("bcd", **usage(4))]


@pytest.mark.parametrize(
    ("reader", "pieces", "found"),
    [
        (chat_reader(), [], None),
        (chat_reader(), PARTS[:1], None),
        (chat_reader(), PARTS, Usage(5, 4)),
        (chat_reader(), [*PARTS, usage_chunk(6)], Usage(5, 6)),
        (chat_reader(), [chunk("a"), chunk("b")], Usage(0, 2)),
        (chat_reader(n=2), PARTS, Usage(0, 3)),
        (
            chat_reader(stream_options={"include_usage": True, "continuous_usage_stats": True}),
            PARTS,
            Usage(5, 4),
        ),
        (
            StreamReader(request_to(RESPONSES, store=False)),
            [frame({}, "response.created"), frame({}, "response.output_text.delta")],
            Usage(0, 1),
        ),
        (
            StreamReader(request_to(MESSAGES)),
            [
                frame({"message": {"usage": {"input_tokens": 7}}}, "message_start"),
                frame({}, "content_block_delta"),
            ],
            Usage(7, 1),
        ),
    ],
    ids=[
        "nothing",
        "no-text",
        "counted",
        "final",
        "not-counted",
        "several-choices",
        "asked-for",
        "responses",
        "messages",
    ],
)
def test_a_stream_that_is_left_early_has_running_usage(
    reader: StreamReader, pieces: list[bytes], found: Usage | None
) -> None:
    for piece in pieces:
        reader.read(piece)

    assert reader.running_usage == found
    assert reader.generated_tokens == (found.completion_tokens if found else 0)
