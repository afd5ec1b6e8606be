"""Continues an answer behind tokens that another worker has sent already (docs/adr/0048).

A request names these tokens. They enter the engine as its first output: they are read with the
prompt, and count for `max_tokens`, penalties and stop strings as if they had been sampled here. The
API server gets them with the first sampled token, and so answers as if it had seen them arrive.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from vllm.exceptions import VLLMValidationError
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.outputs import LogprobsLists
from vllm.v1.request import RequestStatus

_TOKENS = "specgate_resume"
_WAITING_FOR_GRAMMAR = RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR


def resumed_tokens(arguments: Mapping[str, Any] | None) -> Any:
    """Return the ids of the tokens that an answer begins with; empty for one from its start.

    `check_resumed` has made sure of them where a request enters the engine.

    Args:
        arguments: `vllm_xargs` of a body, or `SamplingParams.extra_args`.
    """
    return [] if arguments is None else arguments.get(_TOKENS) or []


def check_resumed(request: Any, *, vocabulary: int, longest: int) -> None:
    """Check what a request resumes, before it enters the engine.

    Args:
        request: vLLM's `EngineCoreRequest`.
        vocabulary: Vocabulary size of the model.
        longest: Most tokens of prompt and output.

    Raises:
        VLLMValidationError: It cannot be resumed so. vLLM answers with 400.
    """
    params = request.sampling_params
    tokens = resumed_tokens(None if params is None else params.extra_args)
    if not tokens:
        return
    if type(tokens) is not list or any(
        type(token) is not int or not 0 <= token < vocabulary for token in tokens
    ):
        raise VLLMValidationError(f"{_TOKENS} must be a list of token ids")
    if request.prompt_token_ids is None or params.n != 1 or params.prompt_logprobs is not None:
        raise VLLMValidationError(
            f"{_TOKENS} needs a prompt of tokens, one choice, and no prompt_logprobs"
        )
    most = min(params.max_tokens, longest - len(request.prompt_token_ids))
    if len(tokens) >= most:
        raise VLLMValidationError(f"{_TOKENS} leaves no room: {len(tokens)} of {most} tokens")


class ResumingScheduler(AsyncScheduler):
    """vLLM's scheduler, which begins a resumed request with its output so far.

    To vLLM the request looks like one that was preempted.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._resumed: dict[str, list[int]] = {}  # requests without an output of this engine

    def add_request(self, request: Any) -> None:
        """Add a request."""
        params = request.sampling_params
        if params is not None and (tokens := resumed_tokens(params.extra_args)):
            request.append_output_token_ids(tokens)
            self._resumed[request.request_id] = tokens
            # vLLM asserts that no more than the prompt is cached. Without these counts it does
            # not look.
            request.prefill_stats = None
        super().add_request(request)

    def _handle_blocked_waiting_request(self, request: Any) -> bool:
        """Whether a request that had to wait may be scheduled now.

        The grammar of a resumed one advances by its tokens; if they do not fit, the request fails.
        """
        waited_for = request.status
        may_run: bool = super()._handle_blocked_waiting_request(request)
        tokens = self._resumed.get(request.request_id)
        if not (may_run and tokens and waited_for is _WAITING_FOR_GRAMMAR):
            return may_run
        if self.structured_output_manager.accept_tokens(request, tokens):
            return True
        request.status = waited_for
        self.grammar_compile_error_reqs.add(request.request_id)
        return False

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take in what a step has sampled."""
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        if self._resumed:
            for batch in outputs.values():
                for output in batch.outputs:
                    if (tokens := self._resumed.pop(output.request_id, None)) is not None:
                        prepend(output, tokens)
        return outputs

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if request.status.name == "FINISHED_ABORTED":
            self._resumed.pop(request.request_id, None)
        return super()._free_request(request, *args, **kwargs)


def prepend(output: Any, tokens: Sequence[int]) -> None:
    """Add resumed tokens to the first output of a request, an `EngineCoreOutput`.

    Their log-probabilities are not known here, and were sent with them: they are given as 0.
    """
    output.new_token_ids = [*tokens, *output.new_token_ids]
    found = output.new_logprobs
    if found is None:
        return
    width = found.logprob_token_ids.shape[1]
    ids = np.repeat(np.array(tokens, found.logprob_token_ids.dtype)[:, None], width, axis=1)
    output.new_logprobs = LogprobsLists(
        np.concatenate((ids, found.logprob_token_ids)),
        np.concatenate((np.zeros(ids.shape, found.logprobs.dtype), found.logprobs)),
        np.concatenate(
            (np.ones(len(tokens), found.sampled_token_ranks.dtype), found.sampled_token_ranks)
        ),
        None,
    )
