import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ContextTooLongError, GatewayError, UpstreamError
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


def test_usage_that_only_we_asked_for_is_taken_out_again() -> None:
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


def finished_chunk(tokens: int) -> bytes:
    choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}
    return frame({"id": "x", "choices": [choice], **usage(tokens)})


def read_in_short(reader: StreamReader, piece: bytes) -> Relayed:
    """As the relay does it: the short way where there is one."""
    usual = reader.read_usual(piece)
    if usual is None:
        return reader.read(piece)
    return Relayed(usual[0], FrameKind.TOKENS, reader.count(usual[1]))


PIECES = st.one_of(
    st.integers(0, 9).map(lambda tokens: chunk("a", **usage(tokens))),
    st.integers(0, 9).map(lambda tokens: chunk('"choices":[] ,"usage":{', **usage(tokens))),
    st.integers(1, 9).map(finished_chunk),
    st.integers(1, 9).map(usage_chunk),
    st.sampled_from(
        [
            chunk("a"),
            chunk("a", usage=None),
            chunk("a", usage={"completion_tokens": "many"}),
            chunk("a", **usage(2), more=[1]),
            frame(usage(1)),
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


@given(st.sampled_from(ASKED), st.lists(PIECES, max_size=8))
def test_the_short_way_reads_what_the_long_way_reads(
    asked: dict[str, Any], pieces: list[bytes]
) -> None:
    short, long = chat_reader(**asked), chat_reader(**asked)
    for piece in pieces:
        try:
            expected = long.read(piece)
        except GatewayError as error:
            with pytest.raises(type(error), match=re.escape(error.message)):
                read_in_short(short, piece)
        else:
            assert read_in_short(short, piece) == expected

    assert (short.usage, short.frames_read) == (long.usage, long.frames_read)
    assert short.take_held() == long.take_held()


def test_most_chunks_have_the_short_way() -> None:
    reader = chat_reader()

    assert reader.read_usual(chunk("a", **usage(3))) == (chunk("a"), 3)
    assert reader.read_usual(finished_chunk(3)) is None


def test_usage_that_the_client_asked_for_stays() -> None:
    reader = chat_reader(stream_options={"include_usage": True})

    text = reader.read(chunk("a", **usage(1)))
    last = reader.read(usage_chunk(1))

    assert text.frame == chunk("a")
    assert last.frame is not None
    answer = json.loads(last.frame.removeprefix(b"data: "))
    assert answer["usage"] == usage(1)["usage"]
    assert answer["metrics"]["speculative_decoding"] == {
        **SPECULATION,
        "sources": {"native": {"drafted": 10, "accepted": 6}},
    }


@pytest.mark.parametrize("continuous", [False, True], ids=["at-the-end", "all-along"])
def test_the_last_chunk_tells_what_became_of_a_prediction(continuous: bool) -> None:
    options = {"include_usage": True, "continuous_usage_stats": continuous}
    request = request_to(CHAT, stream=True, stream_options=options)
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


def test_a_usage_chunk_without_metrics_stays_as_it_is() -> None:
    reader = chat_reader(stream_options={"include_usage": True})
    last = frame({"choices": [], **usage(1)})

    assert reader.read(last) == Relayed(last, FrameKind.SERVICE)
    assert reader.acceptance is None


def test_running_usage_that_the_client_asked_for_stays() -> None:
    reader = chat_reader(stream_options={"include_usage": True, "continuous_usage_stats": True})

    assert reader.read(chunk("ab", **usage(2))) == Relayed(
        chunk("ab", **usage(2)), FrameKind.TOKENS, 2
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"include_usage": True, "continuous_usage_stats": True}],
    ids=["not-asked", "asked"],
)
def test_of_several_choices_no_tokens_are_counted(options: dict[str, bool]) -> None:
    reader = chat_reader(n=2, stream_options=options)

    relayed = reader.read(chunk("ab", **usage(2)))

    assert relayed == Relayed(chunk("ab", **usage(2)), FrameKind.TOKENS)


def test_a_chunk_without_usage_is_text_of_unknown_length() -> None:
    assert chat_reader().read(chunk("a")) == Relayed(chunk("a"), FrameKind.TOKENS)


@pytest.mark.parametrize("endpoint", [CHAT, RESPONSES, MESSAGES, EMBEDDINGS], ids=lambda e: e.path)
@pytest.mark.parametrize("piece", [b": ping\n\n", b"\n\n", b"retry: 5\n\n"], ids=repr)
def test_a_frame_without_data_passes(endpoint: Any, piece: bytes) -> None:
    reader = StreamReader(request_to(endpoint, stream=True))

    assert reader.read(piece) == Relayed(piece, FrameKind.SERVICE)


def test_a_comment_does_not_hide_the_event_it_stands_in() -> None:
    assert chat_reader().read(b": ping\n" + DONE).kind is FrameKind.END


@pytest.mark.parametrize("end", [DONE, b"data:[DONE]\r\n\r\n"], ids=["lf", "crlf"])
def test_done_is_recognised_in_any_line_end(end: bytes) -> None:
    assert chat_reader().read(end) == Relayed(end, FrameKind.END)


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
def test_a_chunk_that_is_no_json_object_is_the_workers_fault(piece: bytes) -> None:
    with pytest.raises(UpstreamError):
        chat_reader().read(piece)


@pytest.mark.parametrize("endpoint", [RESPONSES, MESSAGES], ids=lambda endpoint: endpoint.path)
def test_an_event_that_is_no_json_object_is_the_workers_fault(endpoint: Any) -> None:
    reader = StreamReader(request_to(endpoint, stream=True))

    with pytest.raises(UpstreamError):
        reader.read(b"event: response.output_text.delta\ndata: {oops\n\n")


VLLM_ERROR = {"message": "boom in /opt/engine/core.py", "type": "InternalServerError", "code": 500}
TOO_LONG = {"message": "the maximum context length is 10", "type": "BadRequestError", "code": 400}


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
def test_an_error_in_the_stream_is_raised_without_its_insides(endpoint: Any, piece: bytes) -> None:
    reader = StreamReader(request_to(endpoint, stream=True))

    with pytest.raises(UpstreamError) as caught:
        reader.read(piece)

    assert "/opt" not in caught.value.message


def test_a_callers_error_in_the_stream_keeps_its_words() -> None:
    with pytest.raises(ContextTooLongError) as caught:
        chat_reader().read(frame({"error": TOO_LONG}))

    assert caught.value.message == TOO_LONG["message"]


def test_a_model_that_writes_about_errors_raises_none() -> None:
    text = 'data: {"error": 1}\n\n"choices":[] "usage":{ [DONE]'

    relayed = chat_reader().read(chunk(text, **usage(9)))

    assert relayed == Relayed(chunk(text), FrameKind.TOKENS, 9)


def test_a_response_ends_with_its_usage() -> None:
    reader = StreamReader(request_to(RESPONSES, stream=True))
    created = frame({"type": "response.created"}, "response.created")
    delta = frame({"delta": "a"}, "response.output_text.delta")
    last = frame(
        {"response": {"usage": {"input_tokens": 5, "output_tokens": 3}}}, "response.completed"
    )

    kinds = [reader.read(piece).kind for piece in (created, delta, last)]

    assert kinds == [FrameKind.SERVICE, FrameKind.TOKENS, FrameKind.END]
    assert reader.usage == Usage(5, 3)
    assert reader.frames_read == 3


@pytest.mark.parametrize("response", [None, {}, []], ids=repr)
def test_a_response_may_end_without_usage(response: object) -> None:
    reader = StreamReader(request_to(RESPONSES, stream=True))

    assert reader.read(frame({"response": response}, "response.incomplete")).kind is FrameKind.END
    assert reader.usage is None


def test_a_message_ends_after_its_usage() -> None:
    reader = StreamReader(request_to(MESSAGES, stream=True))
    pieces = [
        frame({"type": "message_start"}, "message_start"),
        frame({"delta": {"text": "a"}}, "content_block_delta"),
        frame({"usage": {"input_tokens": 5, "output_tokens": 3}}, "message_delta"),
        frame({"type": "message_stop"}, "message_stop"),
    ]

    relayed = [reader.read(piece) for piece in pieces]

    assert [each.frame for each in relayed] == pieces
    assert [each.kind.value for each in relayed] == ["service", "tokens", "service", "end"]
    assert reader.usage == Usage(5, 3)


def test_a_stream_we_do_not_know_passes_unread() -> None:
    reader = StreamReader(request_to(EMBEDDINGS, stream=True))
    piece = b"data: {oops\n\n"

    assert reader.read(piece) == Relayed(piece, FrameKind.SERVICE)
    assert not reader.needs_end_frame


@pytest.mark.parametrize(
    "endpoint", [CHAT, RESPONSES, MESSAGES], ids=lambda endpoint: endpoint.path
)
def test_a_stream_we_know_must_not_just_stop(endpoint: Any) -> None:
    assert StreamReader(request_to(endpoint, stream=True)).needs_end_frame


def test_an_error_is_a_gateway_error_whatever_the_bytes() -> None:
    with pytest.raises(GatewayError):
        chat_reader().read(b'data: {"error":' + b"[" * 100_000 + b"\n\n")


def last_chunk(text: str, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}
    return frame({"id": "x", "choices": [choice], **more})


def test_last_chunk_gets_the_fingerprint_that_the_usage_chunk_took_from_it() -> None:
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


def test_last_chunk_is_not_held_from_a_client_that_gets_the_usage_chunk() -> None:
    reader = chat_reader(stream_options={"include_usage": True})

    relayed = reader.read(last_chunk("a", **usage(1)))

    assert relayed == Relayed(last_chunk("a"), FrameKind.TOKENS, 1)


def test_held_chunk_leaves_with_whatever_frame_comes_instead_of_usage() -> None:
    reader = chat_reader()
    reader.read(last_chunk("a", **usage(1)))

    relayed = [reader.read(last_chunk("b", **usage(2))), reader.read(DONE)]

    assert relayed == [
        Relayed(last_chunk("a"), FrameKind.TOKENS, 1),
        Relayed(last_chunk("b") + DONE, FrameKind.END),
    ]


def test_held_chunk_is_not_lost_when_an_error_follows() -> None:
    reader = chat_reader()
    reader.read(last_chunk("a", **usage(1)))

    with pytest.raises(GatewayError):
        reader.read(b'data: {"error":{"message":"x","code":500}}\n\n')

    assert reader.take_held() == last_chunk("a")
