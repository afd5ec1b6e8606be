"""Lets vLLM's server answer with the trace of a request's tokens, if the request asks for it.

Requests that do not ask take vLLM's own path; only the start of a request looks for the flag.
"""

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionResponse
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.entrypoints.openai.completion.serving import OpenAIServingCompletion
from vllm.v1.engine.detokenizer import BaseIncrementalDetokenizer
from vllm.v1.engine.output_processor import RequestState

from engine.worker.chunks import Addition
from engine.worker.trace import Entry, TokenTrace, is_asked, take_accepted


class TracedState(RequestState):
    """vLLM's state of a request in the API server, which also keeps the trace.

    Outputs that wait for a slow reader are merged. They all refer to this one trace, so nothing of
    it is lost; it may be ahead of their text.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.trace = TokenTrace()
        if isinstance(self.detokenizer, BaseIncrementalDetokenizer):
            self.detokenizer.decode_next = self.trace.watch(self.detokenizer.decode_next)

    def make_request_output(
        self,
        new_token_ids: list[int],
        pooling_output: Any,
        finish_reason: Any,
        stop_reason: Any,
        kv_transfer_params: dict[str, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Take in what a step brought; an output of a request with one choice gets the trace."""
        accepted, others = take_accepted(kv_transfer_params)
        self.trace.add(len(new_token_ids), accepted)
        if isinstance(self.detokenizer, BaseIncrementalDetokenizer):
            self.trace.cut(len(self.detokenizer.output_text))
            if finish_reason is not None:
                # The detokenizer and the function that watches it refer to each other.
                self.detokenizer.__dict__.pop("decode_next", None)
        made = super().make_request_output(
            new_token_ids, pooling_output, finish_reason, stop_reason, others, *args, **kwargs
        )
        if made is not None and self.parent_req is None:
            made.specgate_trace = self.trace
        return made


class _Seen(Addition):
    """The trace that the outputs of a request refer to, once one has been seen."""

    def __init__(self) -> None:
        self._trace: TokenTrace | None = None

    def see(self, output: Any) -> None:
        self._trace = _trace_of(output)

    def take(self) -> str:
        new = self.take_entries()
        return f'"speculation":{json.dumps({"trace": new}, separators=(",", ":"))}' if new else ""

    def take_entries(self) -> list[Entry]:
        """Return the entries since the last call."""
        return [] if self._trace is None else self._trace.take()


def trace_tokens() -> None:
    """Change vLLM's server in this process; idempotent."""
    if OpenAIServingChat.chat_completion_stream_generator.__module__ == __name__:
        return
    _trace_states()
    _trace_chats()
    _trace_completions()


def _trace_states() -> None:
    build = vars(RequestState)["from_new_request"].__func__

    def from_new_request(cls: Any, tokenizer: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        params = request.sampling_params
        is_traced = params is not None and is_asked(params.extra_args)
        return build(TracedState if is_traced else cls, tokenizer, request, *args, **kwargs)

    RequestState.from_new_request = classmethod(from_new_request)


def _trace_chats() -> None:
    stream = OpenAIServingChat.chat_completion_stream_generator
    answer = OpenAIServingChat.chat_completion_full_generator

    def stream_traced(self: Any, request: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_asked(request.vllm_xargs):
            return stream(self, request, outputs, *args, **kwargs)
        seen = _Seen()
        return seen.add_to(stream(self, request, seen.watch(outputs), *args, **kwargs))

    async def answer_traced(
        self: Any, request: Any, outputs: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if not is_asked(request.vllm_xargs):
            return await answer(self, request, outputs, *args, **kwargs)
        seen = _Seen()
        answered = await answer(self, request, seen.watch(outputs), *args, **kwargs)
        if isinstance(answered, ChatCompletionResponse) and (entries := seen.take_entries()):
            answered.speculation = {"trace": entries}
        return answered

    OpenAIServingChat.chat_completion_stream_generator = stream_traced
    OpenAIServingChat.chat_completion_full_generator = answer_traced


def _trace_completions() -> None:
    stream = OpenAIServingCompletion.completion_stream_generator
    answer = OpenAIServingCompletion.request_output_to_completion_response

    def stream_traced(
        self: Any, request: Any, prompts: Sequence[Any], outputs: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if not is_asked(request.vllm_xargs) or len(prompts) > 1:
            return stream(self, request, prompts, outputs, *args, **kwargs)
        seen = _Seen()
        watched = seen.watch(outputs, output_of=itemgetter(1))
        return seen.add_to(stream(self, request, prompts, watched, *args, **kwargs))

    def answer_traced(
        self: Any, outputs: Sequence[Any], request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        answered = answer(self, outputs, request, *args, **kwargs)
        if is_asked(request.vllm_xargs) and len(outputs) == 1:
            trace = _trace_of(outputs[0])
            if trace is not None and (entries := trace.take()):
                answered.speculation = {"trace": entries}
        return answered

    OpenAIServingCompletion.completion_stream_generator = stream_traced
    OpenAIServingCompletion.request_output_to_completion_response = answer_traced


def _trace_of(output: Any) -> TokenTrace | None:
    """Return what `TracedState` gave an output; None for several choices."""
    trace: TokenTrace | None = vars(output).get("specgate_trace")
    return trace
