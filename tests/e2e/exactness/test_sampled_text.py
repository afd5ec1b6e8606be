"""The worker's own test of sampled text (docs/adr/0046) on steps that verify drafts."""

import pytest

from tests.e2e.exactness.prompts import make_prompts
from tests.e2e.exactness.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

_CHECKS = "engine_sampling_checks_total"


def test_sampled_tokens_are_tested_and_there_is_no_evidence_of_a_defect(
    speculating: Worker,
) -> None:
    before = speculating.metric(_CHECKS)
    bodies = [
        {"prompt": prompt, "temperature": 0.8, "max_tokens": 60, "ignore_eos": True}
        for prompt in make_prompts(12, seed=46)
    ]
    shaped = [{**body, "top_k": 20, "top_p": 0.9} for body in bodies[:4]]

    speculating.ask_all([*bodies, *shaped], concurrency=4)

    assert speculating.wait_for(_CHECKS, above=before + 3)
    assert speculating.metric("engine_sampling_evidence") < 6.0
    assert "not checked any more" not in speculating.log.read_text(encoding="utf-8")
