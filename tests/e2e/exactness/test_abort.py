"""Clients that hang up: the others' tokens stay the same, and nothing of the request is kept."""

from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest

from tests.e2e.exactness.prompts import make_prompts
from tests.e2e.exactness.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

TOKENS = 400


def test_others_stay_the_same_and_nothing_is_kept(plain: Worker, speculating: Worker) -> None:
    staying = [{"prompt": prompt, "max_tokens": 32} for prompt in make_prompts(8, seed=60)]
    leaving = make_prompts(8, seed=61)
    before = speculating.metric("vllm:generation_tokens_total")

    def leave(number: int) -> None:
        body = {"prompt": leaving[number], "max_tokens": TOKENS, "ignore_eos": True}
        with speculating.streaming(body) as chunks:
            assert len(list(islice(chunks, 1 + number))) == 1 + number

    with ThreadPoolExecutor(4) as pool:
        left = pool.map(leave, range(len(leaving)))
        answers = speculating.ask_all(staying)
        assert len(list(left)) == len(leaving)

    assert answers == plain.ask_all(staying)
    speculating.wait_idle()
    assert speculating.held() == {"drafter": 0, "index": 0, "head": 0}
    generated = speculating.metric("vllm:generation_tokens_total") - before
    assert generated < len(leaving) * TOKENS / 2
