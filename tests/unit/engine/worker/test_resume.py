from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError
from vllm.v1.engine import EngineCoreOutput
from vllm.v1.outputs import LogprobsLists

from engine.worker.resume import check_resumed, prepend, resumed_tokens


def test_who_resumes_nothing_has_no_tokens() -> None:
    assert resumed_tokens(None) == []
    assert resumed_tokens({"specgate_mode": "auto"}) == []
    assert resumed_tokens({"specgate_resume": None}) == []
    assert resumed_tokens({"specgate_resume": [3, 4]}) == [3, 4]


def check(tokens: Any, *, prompt: list[int] | None = None, **params: Any) -> None:
    sampling = SamplingParams(**{"max_tokens": 6, **params}, extra_args={"specgate_resume": tokens})
    request = SimpleNamespace(sampling_params=sampling, prompt_token_ids=prompt or [1, 2])
    check_resumed(request, vocabulary=10, longest=7)


@pytest.mark.parametrize("tokens", [[0], [9, 9], [1, 2, 3, 4], [], None])
def test_what_can_be_resumed_passes(tokens: Any) -> None:
    check(tokens)


@pytest.mark.parametrize("tokens", [[10], [-1], [True], ["1"], [1.0], "12", {"a": 1}, [None]])
def test_ids_that_the_model_does_not_have_are_refused(tokens: Any) -> None:
    with pytest.raises(VLLMValidationError, match="list of token ids"):
        check(tokens)


@pytest.mark.parametrize("tokens", [[1] * 5, [1] * 6, [1] * 60])
def test_nothing_is_resumed_that_is_complete(tokens: list[int]) -> None:
    with pytest.raises(VLLMValidationError, match="no room"):
        check(tokens)


def test_the_limit_of_the_request_counts() -> None:
    with pytest.raises(VLLMValidationError, match="no room"):
        check([1, 2], max_tokens=2)


def test_several_choices_and_log_probabilities_of_the_prompt_are_refused() -> None:
    with pytest.raises(VLLMValidationError, match="one choice"):
        check([1], n=2)
    with pytest.raises(VLLMValidationError, match="one choice"):
        check([1], prompt_logprobs=1)


def test_pooling_requests_pass() -> None:
    check_resumed(SimpleNamespace(sampling_params=None), vocabulary=10, longest=7)


def test_the_first_output_gets_the_tokens() -> None:
    output = EngineCoreOutput("r", [7, 8])

    prepend(output, [5, 6])

    assert output.new_token_ids == [5, 6, 7, 8]
    assert output.new_logprobs is None


def test_log_probabilities_stay_beside_their_tokens() -> None:
    output = EngineCoreOutput(
        "r",
        [7],
        new_logprobs=LogprobsLists(
            np.array([[7, 3, 4]], np.int32),
            np.array([[-0.5, -0.1, -0.5]], np.float32),
            np.array([2], np.int64),
        ),
    )

    prepend(output, [5, 6])

    found = output.new_logprobs
    assert found is not None
    assert found.logprob_token_ids.tolist() == [[5, 5, 5], [6, 6, 6], [7, 3, 4]]
    assert found.logprobs[:2].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert found.logprobs[2].tolist() == pytest.approx([-0.5, -0.1, -0.5])
    assert found.sampled_token_ranks.tolist() == [1, 1, 2]
