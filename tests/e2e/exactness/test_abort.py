"""Clients that hang up: the others' tokens stay the same, and nothing of the request is kept."""

from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest

from tests.e2e.exactness.prompts import make_prompts
from tests.e2e.exactness.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_others_stay_the_same_and_nothing_is_kept(plain: Worker, speculating: Worker) -> None:
    staying = [{"prompt": prompt, "max_tokens": 48} for prompt in make_prompts(12, seed=60)]
    leaving = make_prompts(12, seed=61)

    def leave(number: int) -> None:
        body = {"prompt": leaving[number], "max_tokens": 400, "ignore_eos": True}
        with speculating.streaming(body) as chunks:
            assert len(list(islice(chunks, 1 + number))) == 1 + number

    with ThreadPoolExecutor(4) as pool:
        left = pool.map(leave, range(len(leaving)))
        answers = speculating.ask_all(staying)
        assert len(list(left)) == len(leaving)

    assert answers == plain.ask_all(staying)
    speculating.wait_idle()
    assert speculating.held() == {"drafter": 0, "index": 0}
    aborted = speculating.metric("vllm:request_success_total", finished_reason="abort")
    assert aborted >= len(leaving)
