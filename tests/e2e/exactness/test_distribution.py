"""At temperature 0.8 the texts of a speculating worker are as likely as those of a plain one.

Continuations of three tokens are drawn many times from both. The prompt nearly determines the
first; the second is drafted, often refused, and then drawn again; the third follows. Pearson's
chi-square test compares how often each continuation came. A right engine fails one run in 1 /
`SIGNIFICANCE`, 100,000. A wrong one, whose verification gives a share `shift` of all texts to the
likeliest, is found with a chance of at least `POWER`, computed for the distribution it met.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.e2e.exactness.prompts import make_long_prompt
from tests.e2e.exactness.two_samples import p_value, power, tabulate
from tests.e2e.exactness.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

SIGNIFICANCE = 1e-5
POWER = 0.95
CELLS = 9
TOGETHER = 200
OFTEN = 40
BLOCK = 128
"""Tokens of a block of the KV cache: of a longer prompt the rest alone is read for each sample."""


@dataclass(frozen=True)
class Way:
    """How to draw, how often, and how wrong an engine is found out by that."""

    sampling: dict[str, Any]
    samples: int
    shift: float


WAYS = {
    "all tokens": Way({}, samples=1600, shift=0.18),
    # These take the longest to draw, as vLLM sorts the vocabulary on CPUs.
    "top_p, top_k": Way({"top_p": 0.97, "top_k": 20}, samples=800, shift=0.27),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_samples_come_from_the_same_distribution(
    way: Way, plain: Worker, speculating: Worker
) -> None:
    body = {
        "prompt": prompt_before_a_colour(plain),
        "temperature": 0.8,
        "max_tokens": 3,
        "ignore_eos": True,
        "n": TOGETHER,
        "vllm_xargs": {"specgate_tenant": f"distribution, {way}"},
        **way.sampling,
    }
    drafted = speculating.metric("engine_spec_draft_tokens_total")
    accepted = speculating.metric("engine_spec_accepted_tokens_total")

    with ThreadPoolExecutor(2) as pool:
        draw_all = partial(draw, body=body, samples=way.samples)
        samples, expected = pool.map(draw_all, (speculating, plain))

    for tokens in (2, 3):
        ours, theirs = [sample[:tokens] for sample in samples], [e[:tokens] for e in expected]
        assert p_value(ours, theirs, cells=CELLS) > SIGNIFICANCE
    counts = tabulate([s[:2] for s in samples], [e[:2] for e in expected], cells=CELLS)
    assert power(*counts, shift=way.shift, significance=SIGNIFICANCE, rounds=400) >= POWER
    drafted = speculating.wait_for("engine_spec_draft_tokens_total", above=drafted) - drafted
    accepted = speculating.metric("engine_spec_accepted_tokens_total") - accepted
    # Both ways through the verification were walked often.
    assert accepted > OFTEN
    assert drafted - accepted > OFTEN


def prompt_before_a_colour(worker: Worker) -> list[int]:
    """Records up to a verb: `a` is next, and then one of the colours that came after it before."""
    ids = worker.tokenize(make_long_prompt(seed=97, records=12))
    (article,) = worker.tokenize(" a")
    end = ids.index(article, BLOCK + 1)
    return ids[end - BLOCK - 1 : end]


def draw(worker: Worker, *, body: dict[str, Any], samples: int) -> list[tuple[int, ...]]:
    """Draw samples; without a seed of their own, as seeded requests have no drafts."""
    answers = worker.ask_all([body] * (samples // TOGETHER), concurrency=2)
    return [choice.token_ids for answer in answers for choice in answer.choices]
