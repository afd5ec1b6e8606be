"""What a request says about its own drafts: off, at most so many, a tenant, a prediction."""

from typing import Any

import pytest

from tests.e2e.exactness.answers import Answer
from tests.e2e.exactness.prompts import make_prompts, make_prose
from tests.e2e.exactness.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROMPTS = make_prompts(6, seed=40)


@pytest.fixture(scope="module")
def expected(plain: Worker) -> list[Answer]:
    """What plain decoding answers to `PROMPTS`."""
    return plain.ask_all([{"prompt": prompt} for prompt in PROMPTS])


def controlled(prompts: list[str], **control: Any) -> list[dict[str, Any]]:
    xargs = {f"specgate_{name}": value for name, value in control.items()}
    return [{"prompt": prompt, "vllm_xargs": xargs} for prompt in prompts]


def test_off_drafts_nothing(expected: list[Answer], speculating: Worker) -> None:
    answers = speculating.ask_all(controlled(PROMPTS, mode="off"))

    assert answers == expected
    assert all(answer.drafts.drafted == 0 for answer in answers)


def test_off_with_a_seed_samples_as_plain_decoding_does_whatever_runs_beside_it(
    plain: Worker, speculating: Worker
) -> None:
    sampling = {"temperature": 0.9, "seed": 17}
    seeded = [body | sampling for body in controlled(PROMPTS, mode="off")]
    drafting = [{"prompt": prompt} for prompt in make_prompts(6, seed=41)]

    answers = speculating.ask_all([*seeded, *drafting], concurrency=12)

    assert answers[:6] == plain.ask_all([{"prompt": prompt} | sampling for prompt in PROMPTS])
    assert all(answer.drafts.drafted == 0 for answer in answers[:6])
    assert sum(answer.drafts.drafted for answer in answers[6:]) > 0


@pytest.mark.parametrize("most", [1, 2])
def test_no_step_drafts_more_than_the_request_allows(
    most: int, expected: list[Answer], speculating: Worker
) -> None:
    answers = speculating.ask_all(controlled(PROMPTS, max_draft_tokens=most))

    assert answers == expected
    by_step = [step for answer in answers for step in answer.drafts.drafted_by_step]
    assert max(by_step) == most


NONSENSE: list[dict[str, Any]] = [
    {"mode": "warp"},
    {"max_draft_tokens": "many"},
    {"max_draft_tokens": -3},
    {"prediction": ["a", "b"]},
    {"prediction": [-1, 1e300]},
    {"tenant": 7},
]


def test_what_makes_no_sense_is_ignored(expected: list[Answer], speculating: Worker) -> None:
    bodies = [controlled(PROMPTS[:1], **control)[0] for control in NONSENSE]

    answers = speculating.ask_all(bodies)

    assert answers == expected[:1] * len(NONSENSE)


def test_a_tenant_profits_from_its_own_answers_only(plain: Worker, speculating: Worker) -> None:
    (prompt,) = make_prose(1, seed=42)
    (first,) = controlled([prompt], tenant="a", mode="suffix")
    (second,) = controlled([prompt], tenant="b", mode="suffix")

    cold, warm, other = (speculating.ask(body) for body in (first, first, second))

    assert cold == warm == other == plain.ask({"prompt": prompt})
    assert warm.drafts.accepted > cold.drafts.accepted
    assert other.drafts == cold.drafts


CASES = ["right", "wrong", "half right", "right, but later", "too long"]


def test_a_prediction_changes_nothing_but_the_drafts(plain: Worker, speculating: Worker) -> None:
    prompts = make_prose(6, seed=43)
    expected = plain.ask_all([{"prompt": prompt} for prompt in prompts])
    bodies = [
        body
        for case in CASES
        for number, (prompt, answer) in enumerate(zip(prompts, expected, strict=True))
        for body in controlled(
            [prompt], tenant=f"{case} {number}", prediction=predict(case, answer.token_ids)
        )
    ]

    answers = speculating.ask_all(bodies, concurrency=15)

    assert answers == expected * len(CASES)


def test_a_right_prediction_is_accepted(plain: Worker, speculating: Worker) -> None:
    (prompt,) = make_prose(1, seed=44)
    right = plain.ask({"prompt": prompt}).token_ids
    suffix = {"mode": "suffix"}  # which is what follows predictions; a head would do without
    (without,) = controlled([prompt], tenant="without a prediction", **suffix)
    (with_one,) = controlled([prompt], tenant="with a prediction", prediction=right, **suffix)

    helped, alone = speculating.ask(with_one), speculating.ask(without)

    assert helped == alone
    assert helped.drafts.accepted > max(15, 2 * alone.drafts.accepted)


def predict(case: str, right: list[int]) -> list[int]:
    """A prediction of an answer."""
    wrong = [(token * 7 + 11) % 49000 for token in right]
    half = len(right) // 2
    return {
        "right": right,
        "wrong": wrong,
        "half right": [*right[:half], *wrong[: half // 2], *right[half:]],
        "right, but later": [*wrong, *right],
        "too long": [*right, *wrong] * 200,
    }[case]
