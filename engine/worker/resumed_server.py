"""Lets vLLM's server resume answers, and send the ids of an answer's tokens as it streams.

The ids are what another worker needs to go on (docs/adr/0048). vLLM's own `return_token_ids` would
repeat the prompt in the first chunk, and sends chunks without text.
"""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.entrypoints.openai.completion.serving import OpenAIServingCompletion
from vllm.v1.engine.input_processor import InputProcessor

from engine.worker.chunks import Addition
from engine.worker.resume import check_resumed

_ASKED = "specgate_ids"


class _Ids(Addition):
    """The ids of the tokens that have come; they may be ahead of the text, never behind it."""

    def __init__(self) -> None:
        self._new: list[int] = []

    def see(self, output: Any) -> None:
        self._new += output.outputs[0].token_ids

    def take(self) -> str:
        new, self._new = self._new, []
        return f'"{_ASKED}":{new}' if new else ""


def resume_answers() -> None:
    """Change vLLM's server in this process; idempotent."""
    if InputProcessor.process_inputs.__module__ == __name__:
        return
    _check_requests()
    _send_ids()


def _check_requests() -> None:
    process = InputProcessor.process_inputs

    def process_inputs(self: Any, *args: Any, **kwargs: Any) -> Any:
        request = process(self, *args, **kwargs)
        model = self.model_config
        check_resumed(request, vocabulary=model.get_vocab_size(), longest=model.max_model_len)
        return request

    InputProcessor.process_inputs = process_inputs


def _send_ids() -> None:
    chat = OpenAIServingChat.chat_completion_stream_generator
    completion = OpenAIServingCompletion.completion_stream_generator

    def stream_chat(self: Any, request: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_asked(request.vllm_xargs):
            return chat(self, request, outputs, *args, **kwargs)
        ids = _Ids()
        return ids.add_to(chat(self, request, ids.watch(outputs), *args, **kwargs))

    def stream_completion(
        self: Any, request: Any, prompts: Any, outputs: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if not _is_asked(request.vllm_xargs) or len(prompts) > 1:
            return completion(self, request, prompts, outputs, *args, **kwargs)
        ids = _Ids()
        watched = ids.watch(outputs, output_of=itemgetter(1))
        return ids.add_to(completion(self, request, prompts, watched, *args, **kwargs))

    OpenAIServingChat.chat_completion_stream_generator = stream_chat
    OpenAIServingCompletion.completion_stream_generator = stream_completion


def _is_asked(arguments: Mapping[str, Any] | None) -> bool:
    return arguments is not None and arguments.get(_ASKED) in (1, True)
