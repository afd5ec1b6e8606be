"""What we keep of the V2 runner's requests, from the scheduler's output of each step."""

from types import SimpleNamespace
from typing import Any

import pytest
from vllm import SamplingParams

from engine.worker.v2.requests import Requests


def new(name: str, tokens: list[int], *, prompt: int, most: int | None = 5) -> Any:
    params = SamplingParams(max_tokens=most, temperature=0.5)
    return SimpleNamespace(
        req_id=name, prompt_len=prompt, prefill_token_ids=tokens, sampling_params=params
    )


@pytest.fixture
def requests() -> Requests:
    known = Requests()
    known.update([new("a", [1, 2, 3], prompt=3)], set())
    return known


def test_a_text_grows_by_what_is_sampled(requests: Requests) -> None:
    requests.extend({"a": requests["a"]}, [[7, 8]])
    requests.extend({"a": requests["a"]}, [[]])

    assert requests.text("a").tolist() == [1, 2, 3, 7, 8]
    assert requests.left("a", longest=10) == 3


def test_the_list_of_the_scheduler_is_not_changed() -> None:
    """It is the scheduler's own where both are in one process."""
    tokens = [1, 2, 3]
    requests = Requests()
    requests.update([new("a", tokens, prompt=3)], set())

    requests.extend({"a": requests["a"]}, [[9]])

    assert tokens == [1, 2, 3]


def test_a_resumed_request_brings_its_output(requests: Requests) -> None:
    requests.update([], {"a"})
    requests.update([new("a", [1, 2, 3, 7], prompt=3)], set())

    assert requests.text("a").tolist() == [1, 2, 3, 7]
    assert requests.left("a", longest=10) == 4


def test_a_request_may_leave_and_return_in_one_step(requests: Requests) -> None:
    requests.update([new("a", [4], prompt=1)], {"a"})

    assert requests.text("a").tolist() == [4]


@pytest.mark.parametrize(("most", "left"), [(None, 7), (5, 5), (50, 7)])
def test_the_models_length_limits_a_request_too(most: int | None, left: int) -> None:
    requests = Requests()
    requests.update([new("a", [1, 2, 3], prompt=3, most=most)], set())

    assert requests.left("a", longest=10) == left


def test_requests_that_are_gone_are_forgotten(requests: Requests) -> None:
    requests.update([], {"a", "never seen"})

    with pytest.raises(KeyError):
        requests.text("a")


def test_a_request_of_a_pooling_model_is_not_kept(requests: Requests) -> None:
    one = new("p", [1], prompt=1)
    one.sampling_params = None

    requests.update([one], set())

    with pytest.raises(KeyError):
        requests.left("p", longest=10)
