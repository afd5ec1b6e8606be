import json
from typing import Any

from bench.canary.prompts import greedy_request


def body_of(number: int) -> Any:
    return json.loads(greedy_request("m", number, tokens=8, stream=False).partition(b"\r\n\r\n")[2])


def test_each_request_has_a_prompt_of_its_own_that_can_be_asked_again() -> None:
    prompts = [body_of(number)["messages"][0]["content"] for number in range(100)]

    assert len(set(prompts)) == 100
    assert prompts == [body_of(number)["messages"][0]["content"] for number in range(100)]


def test_the_canary_may_watch_them() -> None:
    body = body_of(3)

    assert (body["temperature"], body["max_tokens"], body["ignore_eos"]) == (0, 8, True)
    assert body["messages"][0]["content"].startswith("Repeat three times: ")
