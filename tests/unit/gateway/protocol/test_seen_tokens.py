"""Tokens are read from frames and answers, and cut out of them."""

import json

import pytest

from gateway.protocol import SeenTokens, Watch

HEAD = b'data: {"id":"1","choices":[{"index":0,"delta":'
FRAME = (
    HEAD + b'{"content":"a"},"logprobs":null,"finish_reason":null,"token_ids":[5,6]}],'
    b'"usage":{"completion_tokens":2},"speculation":{"trace":[["suffix",0],["target",1]]}}\n\n'
)
PLAIN = (
    HEAD + b'{"content":"a"},"logprobs":null,"finish_reason":null,"token_ids":null}],'
    b'"usage":{"completion_tokens":2}}\n\n'
)


def test_ids_and_sources_are_read_and_cut_out() -> None:
    seen = SeenTokens(Watch(10))

    assert [seen.take(FRAME), seen.take(FRAME)] == [PLAIN, PLAIN]
    assert seen.ids == [5, 6, 5, 6]
    assert seen.sources == ["suffix", "target"] * 2


def test_prompt_ids_are_cut_out_but_are_no_tokens_of_the_answer() -> None:
    seen = SeenTokens(Watch(10))
    text = b'{"choices":[{"text":"a","prompt_token_ids":[1,2],"token_ids":[3]}]}'

    assert json.loads(seen.take(text)) == {
        "choices": [{"text": "a", "prompt_token_ids": None, "token_ids": None}]
    }
    assert seen.ids == [3]


def test_only_the_first_tokens_are_kept() -> None:
    seen = SeenTokens(Watch(3))
    for _ in range(1000):
        seen.take(FRAME)

    assert seen.ids == [5, 6, 5]
    assert seen.sources == ["suffix", "target", "suffix"]


@pytest.mark.parametrize(
    ("watch", "ids", "trace"),
    [(Watch(9, wants_ids=True), True, False), (Watch(9, wants_trace=True), False, True)],
    ids=["ids", "trace"],
)
def test_what_the_client_asked_for_stays(watch: Watch, ids: bool, trace: bool) -> None:
    text = SeenTokens(watch).take(FRAME)

    assert (b'"token_ids":[5,6]' in text) is ids
    assert (b'"speculation"' in text) is trace


def test_text_that_looks_like_a_member_is_text() -> None:
    text = json.dumps(
        {"content": '","token_ids":[1],"speculation":{"trace":[["head",1]]}'}, separators=(",", ":")
    ).encode()
    seen = SeenTokens(Watch(9))

    assert seen.take(text) == text
    assert (seen.ids, seen.sources) == ([], [])


def test_a_chunk_that_was_sent_for_its_ids_alone_is_dropped() -> None:
    frame = HEAD + b'{},"logprobs":null,"finish_reason":null,"token_ids":[7]}]}\n\n'
    seen = SeenTokens(Watch(9))

    assert seen.take(frame) == b""
    assert seen.ids == [7]
    assert SeenTokens(Watch(9, wants_ids=True)).take(frame) == frame
