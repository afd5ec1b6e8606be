"""At temperature 0.8 the texts of a speculating worker are as likely as those of a plain one.

Continuations of a few tokens are drawn many times from both, at a place where drafts are made, some
of them accepted and some refused. Pearson's chi-square test compares how often each continuation
came. A right engine fails one run in 1 / `SIGNIFICANCE`, 100,000; a wrong one whose verification
gives a share `SHIFT` of all texts to the likeliest one is found with a chance of at least `POWER`,
which the test computes for the distribution that it met.
"""

from typing import Any

import pytest

from tests.e2e.exactness.two_samples import p_value, power, tabulate
from tests.e2e.exactness.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

SIGNIFICANCE = 1e-5
SHIFT = 0.1
POWER = 0.95
CELLS = 21
SAMPLES, TOGETHER = 2000, 100

CASES: dict[str, dict[str, Any]] = {
    "plain": {
        "prompt": "Anna found a red lamp. Ben sold a blue lamp. Anna found a red kettle. Ben",
    },
    "top_p and top_k": {
        "prompt": "red, blue, red, green, red, blue, red, green, red, blue, green, red, blue,",
        "top_p": 0.95,
        "top_k": 40,
    },
}


@pytest.mark.parametrize("case", CASES)
def test_samples_come_from_the_same_distribution(
    case: str, plain: Worker, speculating: Worker
) -> None:
    drafted = speculating.metric("engine_spec_draft_tokens_total")
    accepted = speculating.metric("engine_spec_accepted_tokens_total")

    samples = sample(speculating, case)
    expected = sample(plain, case)

    assert p_value(samples, expected, cells=CELLS) > SIGNIFICANCE
    found = power(
        *tabulate(samples, expected, cells=CELLS),
        shift=SHIFT, significance=SIGNIFICANCE, rounds=500,
    )  # fmt: skip
    assert found >= POWER
    drafted = speculating.wait_for("engine_spec_draft_tokens_total", above=drafted) - drafted
    accepted = speculating.metric("engine_spec_accepted_tokens_total") - accepted
    assert drafted > SAMPLES
    assert 0.1 < accepted / drafted < 0.9


def sample(worker: Worker, case: str) -> list[tuple[int, ...]]:
    """Draw continuations of four tokens: the prompt brings the first, drafts the others."""
    body = {
        **CASES[case],
        "temperature": 0.8,
        "max_tokens": 4,
        "ignore_eos": True,
        "n": TOGETHER,
        "vllm_xargs": {"specgate_tenant": f"distribution, {case}"},
    }
    answers = worker.ask_all([body] * (SAMPLES // TOGETHER), concurrency=2)
    return [choice.token_ids for answer in answers for choice in answer.choices]
