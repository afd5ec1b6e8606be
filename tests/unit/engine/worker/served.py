"""A request in vLLM's own output processor and serving classes, without an engine."""

import json
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

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
from vllm.v1.engine.output_processor import OutputProcessor, RequestOutputCollector
from vllm.v1.engine.parallel_sampling import ParentRequest

from engine.drafting import Origin
from engine.drafting.origin import HEAD, SUFFIX
from engine.worker.trace import add_accepted

TEXTS = ["</s>", "Once", " upon", " a", " time", "ð", "Ł", "Ļ", "Ĥ"]
"""Tokens by id; the last four, as bytes, are an emoji."""
ASKED: dict[str, Any] = {"specgate_trace": 1}
SUFFIXED = Origin(SUFFIX)


@contextmanager
def hooked(install: Callable[[], None], patched: Sequence[tuple[type, str]]) -> Iterator[None]:
    """Install hooks in vLLM's classes; afterwards these members are vLLM's own again."""
    originals = [vars(owner)[name] for owner, name in patched]
    install()
    yield
    for (owner, name), original in zip(patched, originals, strict=True):
        setattr(owner, name, original)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer that knows `TEXTS`."""
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
