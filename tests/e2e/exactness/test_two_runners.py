"""vLLM's two model runners write the same tokens, and so does V2 with drafts."""

from pathlib import Path

import pytest

from tests.e2e.exactness.conftest import profile, speculation
from tests.e2e.exactness.prompts import make_prompts, make_prose
from tests.e2e.exactness.worker import starting_worker
from tests.v2_on_cpus.environment import why_not

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

BODIES = [
    {"prompt": prompt, "max_tokens": 24}
    for prompt in (*make_prompts(150, seed=31), *make_prose(50, seed=32))
]


def test_two_hundred_texts_are_the_same_on_both(tmp_path: Path) -> None:
    answers = {}
    for runner in ("v1", "v2"):
        folder = tmp_path / runner
        folder.mkdir()
        section = profile(vllm={}, speculation=speculation()) | {"runner": runner}
        with starting_worker(folder, section) as worker:
            worker.wait_ready()
            assert f"model runner is {runner.upper()}" in worker.log.read_text("utf-8")
            answers[runner, "plain"] = worker.plain().ask_all(BODIES, concurrency=32)
            answers[runner, "drafts"] = worker.ask_all(BODIES, concurrency=32)

    expected = answers["v1", "plain"]
    assert answers["v1", "drafts"] == expected
    assert answers["v2", "plain"] == expected
    assert answers["v2", "drafts"] == expected
    drafts = [answer.drafts for answer in answers["v2", "drafts"]]
    assert sum(one.accepted for one in drafts) > 2 * len(BODIES)
    assert sum(one.drafted - one.accepted for one in drafts) > len(BODIES)
