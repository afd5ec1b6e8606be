"""A drafter of vLLM itself beside the suffix index: the model as its own draft model."""

import pytest

from tests.e2e.exactness.conftest import Restarted
from tests.e2e.exactness.prompts import make_prompts
from tests.e2e.exactness.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

DRAFTED, ACCEPTED = "engine_spec_draft_tokens_total", "engine_spec_accepted_tokens_total"


def test_tokens_are_the_same_with_a_draft_model_and_the_suffix_index(
    plain: Worker, restarted: Restarted
) -> None:
    worker = restarted.worker
    bodies = [{"prompt": prompt} for prompt in make_prompts(12, seed=85)]
    suffix_only = {"vllm_xargs": {"specgate_mode": "suffix"}}

    answers = worker.ask_all([*bodies[:9], *(body | suffix_only for body in bodies[9:])])

    assert answers == plain.ask_all(bodies)
    sources = [answer.drafts.sources for answer in answers]
    assert frozenset[str]().union(*sources[:9]) == {"suffix", "native"}
    assert frozenset[str]().union(*sources[9:]) == {"suffix"}
    # Nearly all, as its cache has also the tokens of steps in which the suffix index drafted.
    drafted = worker.wait_for(DRAFTED, above=0, source="native")
    assert worker.metric(ACCEPTED, source="native") > 0.9 * drafted
