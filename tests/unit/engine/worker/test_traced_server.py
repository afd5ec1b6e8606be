"""vLLM's own output processor and serving classes, with our hooks; tests/e2e has a whole server."""

import asyncio
from collections.abc import AsyncGenerator, Iterator

import pytest
from transformers import PreTrainedTokenizerFast
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.entrypoints.openai.completion.serving import OpenAIServingCompletion
from vllm.outputs import RequestOutput
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine import FinishReason
from vllm.v1.engine.output_processor import (
    RequestState,
)

from engine.worker.traced_server import TracedState, trace_tokens
from tests.unit.engine.worker.served import (
    ASKED,
    Served,
    chat,
    collect,
    complete,
    hooked,
    make_tokenizer,
)

PATCHED = (
    (RequestState, "from_new_request"),
    (OpenAIServingChat, "chat_completion_stream_generator"),
    (OpenAIServingChat, "chat_completion_full_generator"),
    (OpenAIServingCompletion, "completion_stream_generator"),
    (OpenAIServingCompletion, "request_output_to_completion_response"),
)


@pytest.fixture(autouse=True)
def vllm_with_hooks() -> Iterator[None]:
    with hooked(trace_tokens, PATCHED):
        yield


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return make_tokenizer()


ENTRIES = [
    ["target", 4],
    ["head", 5],
    ["suffix", 2],
    ["target", 5],
    ["target", 0],
    ["target", 0],
    ["suffix", 0],
    ["suffix", 1],
    ["target", 0],
]
"""Of these outputs; the emoji's text is its last byte's."""


def test_each_output_refers_to_the_entries_of_its_step(tokenizer: PreTrainedTokenizerFast) -> None:
    served = Served(tokenizer)

    served.step(1)
    first = served.entries()
    served.step(2, 3, accepted=1)
    second = served.entries()

    assert first == [("target", 4)]
    assert second == [("suffix", 5), ("target", 2)]


def test_merged_outputs_lose_no_entries(tokenizer: PreTrainedTokenizerFast) -> None:
    served = Served(tokenizer)

    served.step(1)
    served.step(5, 6, 7, accepted=2)
    served.step(8)

    assert served.entries() == [("target", 4), *[("suffix", 0)] * 2, ("target", 0), ("target", 1)]


def test_a_whole_answer_has_all_entries(tokenizer: PreTrainedTokenizerFast) -> None:
    served = Served(tokenizer, kind=RequestOutputKind.FINAL_ONLY)

    served.step(1)
    served.step(2, 3, accepted=1, end=FinishReason.LENGTH)

    assert served.entries() == [("target", 4), ("suffix", 5), ("target", 2)]


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "dropped"])
def test_a_stop_string_cuts_entries_and_tokens(
    kept: bool, tokenizer: PreTrainedTokenizerFast
) -> None:
    served = Served(tokenizer, stop=["on a"], include_stop_str_in_output=kept)

    served.step(1)
    served.step(2, 3, 4, accepted=2)
    output = served.read()

    assert output.outputs[0].text == ("Once upon a" if kept else "Once up")
    assert output.outputs[0].token_ids == [1, 2, 3]
    lengths = [4, 5, 2] if kept else [4, 3, 0]
    assert output.specgate_trace.take() == list(
        zip(("target", "suffix", "suffix"), lengths, strict=True)
    )


def test_parameters_of_a_kv_transfer_pass(tokenizer: PreTrainedTokenizerFast) -> None:
    served, theirs = Served(tokenizer), {"remote_host": "h"}

    served.step(1, 2, accepted=1, params=theirs, end=FinishReason.LENGTH)

    assert served.read().kv_transfer_params == theirs


def test_one_of_several_choices_gets_no_trace(tokenizer: PreTrainedTokenizerFast) -> None:
    served = Served(tokenizer, parent=True, n=2)

    served.step(1, 2, accepted=1)
    output = served.read()

    assert "specgate_trace" not in vars(output)
    assert output.kv_transfer_params is None


def test_who_does_not_ask_gets_vllms_own_state(tokenizer: PreTrainedTokenizerFast) -> None:
    served = Served(tokenizer, asked=False)

    served.step(1)

    assert type(served.state) is RequestState
    assert "decode_next" not in vars(served.state.detokenizer)
    assert "specgate_trace" not in vars(served.read())


def test_a_finished_request_leaves_no_cycle(tokenizer: PreTrainedTokenizerFast) -> None:
    served = Served(tokenizer)

    served.step(1, end=FinishReason.LENGTH)

    assert type(served.state) is TracedState
    assert "decode_next" not in vars(served.state.detokenizer)


def test_a_second_call_changes_nothing() -> None:
    once = [vars(owner)[name] for owner, name in PATCHED]

    trace_tokens()

    assert [vars(owner)[name] for owner, name in PATCHED] == once


@pytest.mark.parametrize("usage", [True, False], ids=["with usage", "without usage"])
@pytest.mark.parametrize("is_chat", [True, False], ids=["chat", "completion"])
def test_chunks_carry_the_entries_of_their_text(
    is_chat: bool, usage: bool, tokenizer: PreTrainedTokenizerFast
) -> None:
    served = Served(tokenizer)
    fields = {"stream": True, "vllm_xargs": ASKED, "stream_options": {"include_usage": usage}}
    chunks = (
        chat(served.outputs(), tokenizer, **fields)
        if is_chat
        else complete(served.numbered(), tokenizer, **fields)
    )

    events = asyncio.run(collect(chunks))

    told = [event.get("speculation", {}).get("trace", []) for event in events]
    assert [entries for entries in told if entries] == [ENTRIES[:1], ENTRIES[1:4], ENTRIES[4:]]
    assert "speculation" not in events[-1] or not usage


@pytest.mark.parametrize("is_chat", [True, False], ids=["chat", "completion"])
def test_chunks_are_vllms_own_if_nobody_asks(
    is_chat: bool, tokenizer: PreTrainedTokenizerFast
) -> None:
    served = Served(tokenizer, asked=False)
    fields = {"stream": True, "vllm_xargs": {"specgate_mode": "auto"}}
    chunks = (
        chat(served.outputs(), tokenizer, **fields)
        if is_chat
        else complete(served.numbered(), tokenizer, **fields)
    )

    assert chunks.ag_code.co_filename.endswith("serving.py")
    assert all("speculation" not in event for event in asyncio.run(collect(chunks)))


def test_an_error_in_mid_stream_stays_as_it_is(tokenizer: PreTrainedTokenizerFast) -> None:
    served = Served(tokenizer)

    async def failing() -> AsyncGenerator[RequestOutput, None]:
        served.step(1)
        yield served.read()
        served.step(2)
        raise ValueError("broken")

    events = asyncio.run(collect(chat(failing(), tokenizer, stream=True, vllm_xargs=ASKED)))

    assert events[1]["speculation"] == {"trace": [["target", 4]]}
    assert list(events[-1]) == ["error"]


def test_a_reader_that_leaves_closes_the_outputs(tokenizer: PreTrainedTokenizerFast) -> None:
    served = Served(tokenizer)
    closed = []

    async def endless() -> AsyncGenerator[RequestOutput, None]:
        try:
            while True:
                served.step(1)
                yield served.read()
        finally:
            closed.append(True)

    async def leave() -> None:
        chunks = chat(endless(), tokenizer, stream=True, vllm_xargs=ASKED)
        await anext(chunks)
        await anext(chunks)
        await chunks.aclose()
        await asyncio.sleep(0)

    asyncio.run(leave())

    assert closed == [True]


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "not asked"])
def test_a_whole_chat_has_the_trace_that_it_asked_for(
    asked: bool, tokenizer: PreTrainedTokenizerFast
) -> None:
    served = Served(tokenizer, asked=asked, kind=RequestOutputKind.FINAL_ONLY)

    async def last() -> AsyncGenerator[RequestOutput, None]:
        served.step(1)
        served.step(2, 3, accepted=1, end=FinishReason.LENGTH)
        yield served.read()

    xargs = ASKED if asked else None
    answer = asyncio.run(chat(last(), tokenizer, vllm_xargs=xargs))

    found = answer.model_dump().get("speculation")
    entries = [("target", 4), ("suffix", 5), ("target", 2)]
    assert found == ({"trace": entries} if asked else None)
    assert answer.choices[0].message.content == "Once upon a"


def test_an_error_instead_of_a_chat_stays_as_it_is(tokenizer: PreTrainedTokenizerFast) -> None:
    served = Served(tokenizer)

    async def left() -> AsyncGenerator[RequestOutput, None]:
        served.step(1)
        yield served.read()
        raise asyncio.CancelledError

    answer = asyncio.run(chat(left(), tokenizer, vllm_xargs=ASKED))

    assert list(answer.model_dump()) == ["error"]
