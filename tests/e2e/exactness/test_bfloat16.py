"""In bfloat16, too, text is the same where our kernels compute: a row depends on no other."""

from collections.abc import Iterator

import pytest
import torch

from engine.kernels import attention_kernels, linear_kernels
from engine.processor import has_bfloat16_tiles
from tests.e2e.exactness.conftest import profile, speculation
from tests.e2e.exactness.prompts import make_long_prompt, make_prompts, make_prose
from tests.e2e.exactness.worker import Worker, starting_worker

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        not linear_kernels(torch.bfloat16)
        or not attention_kernels(torch.bfloat16)
        or has_bfloat16_tiles(),
        reason="needs a processor with AVX2 or AVX-512, and without AMX, where vLLM's own compute",
    ),
]

OFF = {"vllm_xargs": {"specgate_mode": "off"}}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("bfloat16")
    settings = profile(vllm={"dtype": "bfloat16"}, speculation=speculation())
    with starting_worker(folder, settings) as started:
        started.wait_ready()
        yield started


def test_drafts_and_neighbours_change_no_token(worker: Worker) -> None:
    prompts = [*make_prompts(24, seed=21), *make_prose(8, seed=22)]
    prompts += [make_long_prompt(seed=23, records=40) + prompt for prompt in prompts[:6]]
    bodies = [{"prompt": prompt, "max_tokens": 60} for prompt in prompts]

    expected = worker.ask_all([body | OFF for body in bodies], concurrency=1)
    crowded = worker.ask_all([body | OFF for body in bodies], concurrency=12)
    alone = worker.ask_all(bodies, concurrency=1)
    drafted = worker.ask_all(bodies, concurrency=12)

    assert crowded == expected
    assert alone == expected
    assert drafted == expected
    assert all(answer.drafts.drafted == 0 for answer in [*expected, *crowded])
    for answers in (alone, drafted):
        accepted = sum(answer.drafts.accepted for answer in answers)
        refused = sum(answer.drafts.drafted for answer in answers) - accepted
        assert accepted > 10 * len(prompts)
        assert refused > 2 * len(prompts)
