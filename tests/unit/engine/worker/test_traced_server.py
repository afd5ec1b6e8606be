"""vLLM's own output processor and serving classes, with our hooks; tests/e2e has a whole server."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast
from vllm import SamplingParams
from vllm.entrypoints.generate.base.protocol import RequestResponseMetadata
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.completion.serving import OpenAIServingCompletion
from vllm.outputs import RequestOutput
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine import EngineCoreOutput, EngineCoreRequest, FinishReason
from vllm.v1.engine.output_processor import (
    OutputProcessor,
    RequestOutputCollector,
    RequestState,
)
from vllm.v1.engine.parallel_sampling import ParentRequest

from engine.drafting import Origin
from engine.drafting.origin import HEAD, SUFFIX
from engine.worker.trace import add_accepted
from engine.worker.traced_server import TracedState, trace_tokens

TEXTS = ["</s>", "Once", " upon", " a", " time", "ð", "Ł", "Ļ", "Ĥ"]
"""Tokens by id; the last four, as bytes, are an emoji."""
ASKED: dict[str, Any] = {"specgate_trace": 1}
SUFFIXED = Origin(SUFFIX)
PATCHED = (
    (RequestState, "from_new_request"),
    (OpenAIServingChat, "chat_completion_stream_generator"),
    (OpenAIServingChat, "chat_completion_full_generator"),
    (OpenAIServingCompletion, "completion_stream_generator"),
    (OpenAIServingCompletion, "request_output_to_completion_response"),
)


@pytest.fixture(autouse=True)
def hooked() -> Iterator[None]:
    originals = [vars(owner)[name] for owner, name in PATCHED]
    trace_tokens()
    yield
    for (owner, name), original in zip(PATCHED, originals, strict=True):
        setattr(owner, name, original)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {text.replace(" ", "Ġ"): number for number, text in enumerate(TEXTS)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


class Served:
    """A request in vLLM's output processor, and the reader of its outputs."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        *,
        kind: RequestOutputKind = RequestOutputKind.DELTA,
        asked: bool = True,
        parent: bool = False,
        **params: Any,
    ) -> None:
        params["extra_args"] = ASKED if asked else None
        sampling = SamplingParams(output_kind=kind, **params)
        request = EngineCoreRequest("r", [1, 2], None, sampling, None, 0.0, None, None, None)
        request.external_req_id = "r"
        self._processor = OutputProcessor(tokenizer, log_stats=False)
        self._queue = RequestOutputCollector(kind, "r")
        above = None
        if parent:
            above = ParentRequest(request)
            above.child_requests = {"r"}
        self._processor.add_request(request, "Once upon", above, 0, self._queue)
        self.state = self._processor.request_states["r"]

    def step(
        self,
        *tokens: int,
        accepted: int = 0,
        origin: Origin = SUFFIXED,
        end: FinishReason | None = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        """What a step of the engine brings."""
        if accepted:
            params = dict(add_accepted(params, origin, accepted))
        output = EngineCoreOutput("r", list(tokens), finish_reason=end, kv_transfer_params=params)
        self._processor.process_outputs([output])

    def read(self) -> Any:
        """The output that is there, merged if there were several."""
        output = self._queue.get_nowait()
        assert output is not None
        return output

    def entries(self) -> list[tuple[str, int]]:
        """The entries since the last call, as an output refers to them."""
        entries: list[tuple[str, int]] = self.read().specgate_trace.take()
        return entries

    async def outputs(self) -> AsyncGenerator[RequestOutput, None]:
        """The outputs as a reader gets them who is as fast as the engine."""
        self.step(1)
        yield self.read()
        self.step(2, 3, 4, accepted=2, origin=Origin(HEAD, SUFFIX, 1))
        yield self.read()
        self.step(5, 6)
        self.step(7, 8, 0, accepted=2, end=FinishReason.STOP)
        yield self.read()

    async def numbered(self) -> AsyncGenerator[tuple[int, RequestOutput], None]:
        """The same as text completions get it."""
        async for output in self.outputs():
            yield 0, output


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


def chat(outputs: Any, tokenizer: Any, **fields: Any) -> Any:
    """vLLM's answer to a chat: a stream's chunks, or the coroutine of a whole answer."""
    body = {"messages": [{"role": "user", "content": "?"}], **fields}
    serving: Any = object.__new__(OpenAIServingChat)
    vars(serving).update(
        parser_cls=None,
        response_role="assistant",
        system_fingerprint=None,
        enable_auto_tools=False,
        enable_force_include_usage=False,
        enable_log_outputs=False,
        enable_per_request_metrics=False,
        enable_prompt_tokens_details=False,
        request_logger=None,
        _include_reasoning_tokens_details=False,
    )
    request = ChatCompletionRequest.model_validate(body)
    kind = "stream" if request.stream else "full"
    answer = getattr(serving, f"chat_completion_{kind}_generator")
    metadata = RequestResponseMetadata(request_id="c")
    return answer(request, outputs, "c", "m", [], tokenizer, metadata)


def complete(outputs: Any, tokenizer: Any, **fields: Any) -> Any:
    """The chunks of a text completion."""
    serving: Any = object.__new__(OpenAIServingCompletion)
    vars(serving).update(
        system_fingerprint=None,
        enable_force_include_usage=False,
        enable_per_request_metrics=False,
        enable_prompt_tokens_details=False,
    )
    request = CompletionRequest.model_validate({"prompt": "x", "stream": True, **fields})
    metadata = RequestResponseMetadata(request_id="c")
    return serving.completion_stream_generator(
        request, [{}], outputs, "c", 0, "m", 1, tokenizer, metadata
    )


async def collect(chunks: AsyncGenerator[str, None]) -> list[Any]:
    """The chunks of a stream, read; the last one is its end."""
    frames = [chunk.removeprefix("data: ").removesuffix("\n\n") async for chunk in chunks]
    assert frames[-1] == "[DONE]"
    return [json.loads(frame) for frame in frames[:-1]]


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

    assert events[0]["speculation"] == {"trace": [["target", 4]]}
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
