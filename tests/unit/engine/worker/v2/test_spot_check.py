import math
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from vllm import SamplingParams
from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p
from vllm.v1.worker.gpu import model_runner as vllms
from vllm.v1.worker.gpu.sample.bad_words import BadWordsState
from vllm.v1.worker.gpu.spec_decode.rejection_sampler import RejectionSampler

from engine.worker.uniform import CHECK_EVERY, UniformTest, place_of
from engine.worker.v2.requests import Request
from engine.worker.v2.spot_check import (
    CheckedSampler,
    SpotCheck,
    probabilities_of,
    take_our_sampler,
    transform,
)
from tests.fakes.cuda import DEVICE, made_up_cuda

VOCABULARY, LONGEST = 11, 2
DRAFTS: Sequence[Sequence[int]] = [[], [1], [2, 0]]
HOT = SamplingParams(temperature=1.3)


def batch_of(drafts: Sequence[Sequence[int]]) -> Any:
    """A batch of the requests "0", "1" and so on: of each the token 9 and its draft are input."""
    lengths = [len(draft) + 1 for draft in drafts]
    tokens = [token for draft in drafts for token in (9, *draft)]
    return SimpleNamespace(
        req_ids=[str(number) for number in range(len(drafts))],
        num_draft_tokens_per_req=np.array([len(draft) for draft in drafts], np.int32),
        cu_num_logits_np=np.cumsum([0, *lengths]),
        # Prompt tokens of others, which have no logits, stand before them.
        input_ids=torch.tensor([7, 7, *tokens], dtype=torch.int32),
        logits_indices=torch.arange(2, 2 + len(tokens)),
    )


def request_of(params: Any = HOT, *, known: int = 3) -> Request:
    return Request([5] * known, 2, None, params)


def output_of(sampled: Sequence[Sequence[int]]) -> Any:
    rows = [[*row, *[-1] * (LONGEST + 1 - len(row))] for row in sampled]
    return SimpleNamespace(
        sampled_token_ids=torch.tensor(rows), num_sampled=torch.tensor(list(map(len, sampled)))
    )


def verify(
    drafts: Sequence[Sequence[int]], logits: torch.Tensor, *, accept: Any, replace: Any
) -> Any:
    """Speculative sampling as it should be, but for what the arguments change."""
    rng, line, sampled = torch.Generator().manual_seed(int(logits.sum() * 1e4)), 0, []
    for draft in drafts:
        tokens: list[int] = []
        for place in range(len(draft) + 1):
            left = (logits[line + place] / HOT.temperature).softmax(-1)
            if place < len(draft):
                token = draft[place]
                if float(torch.rand((), generator=rng)) < accept(float(left[token])):
                    tokens.append(token)
                    continue
                left = replace(left, token)
            tokens.append(int(left.multinomial(1, generator=rng)))
            break
        sampled.append(tokens)
        line += len(draft) + 1
    return output_of(sampled)


def without(left: torch.Tensor, token: int) -> torch.Tensor:
    return left.scatter(0, torch.tensor([token]), 0.0)


def check(*, accept: Any = float, replace: Any = without, steps: int = 8_000) -> UniformTest:
    """Verify so many steps, and check them."""
    rng, test = random.Random(5), UniformTest()
    torch.manual_seed(5)
    spot_check = SpotCheck(test, lambda _: request_of(), rng)
    for step in range(steps):
        drafts = [[], [rng.randrange(3)], [rng.randrange(3), rng.randrange(3)]]
        if (step + 1) % CHECK_EVERY:
            assert spot_check.begin(torch.zeros(6, VOCABULARY), batch_of(drafts)) is None
            continue
        logits = torch.randn(6, VOCABULARY) + torch.tensor([2.0] * 3 + [0.0] * (VOCABULARY - 3))
        place = spot_check.begin(logits, batch_of(drafts))
        assert place is not None
        spot_check.end(place, verify(drafts, logits, accept=accept, replace=replace), None)
        value = spot_check.take()
        assert value is not None
        spot_check.collect(value)
    assert spot_check.take() is None
    return test


def test_what_is_verified_well_is_uniform() -> None:
    test = check()

    assert 500 < sum(test.counts) < 1_000  # places behind a refused token do not count
    assert test.evidence < 2.0


def test_a_defect_in_acceptance_is_found() -> None:
    assert check(accept=math.sqrt).evidence > 6.0


def test_a_defect_in_what_replaces_a_token_is_found() -> None:
    assert check(replace=lambda left, _: left).evidence > 6.0


@pytest.mark.parametrize(("draft", "token"), [(3, 3), (3, 5), (5, 3), (0, 10), (10, 0)])
def test_the_transform_is_that_of_v1(draft: int, token: int) -> None:
    probabilities = torch.randn(VOCABULARY).softmax(-1)

    found = transform(probabilities, torch.tensor([draft]), torch.tensor([token]), 0.3)

    expected = place_of(probabilities.numpy(), draft=draft, token=token, fraction=0.3)
    assert found.tolist() == pytest.approx([expected])


@pytest.mark.parametrize(
    "asked", [{}, {"top_k": 3}, {"top_p": 0.8}, {"top_k": 4, "top_p": 0.6}, {"top_p": 0.01}]
)
def test_probabilities_are_those_that_vllm_samples_from(asked: dict[str, Any]) -> None:
    params = SamplingParams(temperature=0.7, **asked)
    logits = torch.randn(VOCABULARY)
    k = torch.tensor([params.top_k if params.top_k > 0 else VOCABULARY])

    kept = apply_top_k_top_p((logits / 0.7).unsqueeze(0), k, torch.tensor([params.top_p]))

    found = probabilities_of(logits, params)
    assert found.tolist() == pytest.approx(kept[0].softmax(-1).tolist())


@pytest.mark.parametrize(
    "request_",
    [
        None,
        request_of(known=2),
        request_of(SamplingParams(temperature=0.0)),
        request_of(SamplingParams(top_k=1)),
        request_of(SamplingParams(logit_bias={1: 0.5})),
        request_of(SamplingParams(min_p=0.1)),
        request_of(SamplingParams(presence_penalty=0.1)),
        request_of(SamplingParams(frequency_penalty=0.1)),
        request_of(SamplingParams(repetition_penalty=1.1)),
        request_of(SamplingParams(bad_words=["no"])),
        request_of(SamplingParams(allowed_token_ids=[1])),
        request_of(SamplingParams(min_tokens=2)),
        request_of(SamplingParams(thinking_token_budget=9)),
    ],
)
def test_requests_with_other_probabilities_are_left_out(request_: Request | None) -> None:
    spot_check = SpotCheck(UniformTest(), lambda _: request_)

    found = [spot_check.begin(torch.zeros(6, VOCABULARY), batch_of(DRAFTS)) for _ in range(99)]

    assert not any(found)


def test_a_draft_that_a_grammar_forbids_is_not_tested() -> None:
    test = UniformTest()
    spot_check = SpotCheck(test, lambda _: request_of())
    for forbidden in (True, False):
        invalid = torch.zeros(2, dtype=torch.bool)
        invalid[1] = forbidden
        places = [spot_check.begin(torch.zeros(2, VOCABULARY), batch_of([[4]])) for _ in range(8)]
        assert places[-1] is not None
        spot_check.end(places[-1], output_of([[4, 1]]), invalid)
        value = spot_check.take()
        assert value is not None
        spot_check.collect(value)
        assert sum(test.counts) == (0 if forbidden else 1)


@pytest.mark.parametrize("asked", [{}, {"top_k": 5, "top_p": 0.9}], ids=["all", "some"])
def test_the_cpu_never_waits_for_a_check(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    params = SamplingParams(temperature=0.7, **asked)
    test = UniformTest()
    spot_check = SpotCheck(test, lambda _: request_of(params))
    batch, output = batch_of([[9]]), output_of([[9, 1]])
    with made_up_cuda(monkeypatch) as cuda, torch.inference_mode():
        batch.input_ids = batch.input_ids.to(DEVICE)
        batch.logits_indices = batch.logits_indices.to(DEVICE)
        output.sampled_token_ids = output.sampled_token_ids.to(DEVICE)
        output.num_sampled = output.num_sampled.to(DEVICE)
        logits = torch.linspace(0.0, 3.0, 2 * VOCABULARY).view(2, VOCABULARY).to(DEVICE)
        invalid = torch.zeros(2, dtype=torch.bool).to(DEVICE)
        cuda.reset()

        places = [spot_check.begin(logits, batch) for _ in range(CHECK_EVERY)]
        assert places[-1] is not None
        spot_check.end(places[-1], output, invalid)
        value = spot_check.take()

        assert (cuda.waits, cuda.copies_in, cuda.copies_out) == ([], 0, 1)
        assert value is not None
        cuda.synchronize()
        spot_check.collect(value)
    assert value.item() > 0.0
    assert sum(test.counts) == 1


def test_an_error_ends_the_checks_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    spot_check = SpotCheck(UniformTest(), lambda _: request_of())
    batch = batch_of(DRAFTS)
    batch.input_ids = None

    for _ in range(99):
        assert spot_check.begin(torch.zeros(6, VOCABULARY), batch) is None

    assert caplog.text.count("not checked any more") == 1


def test_a_sampler_that_cannot_be_read_ends_the_checks(caplog: pytest.LogCaptureFixture) -> None:
    spot_check = SpotCheck(UniformTest(), lambda _: request_of())
    places = [spot_check.begin(torch.zeros(6, VOCABULARY), batch_of(DRAFTS)) for _ in range(8)]
    assert places[-1] is not None

    spot_check.end(places[-1], SimpleNamespace(), None)

    assert spot_check.take() is None
    assert "not checked any more" in caplog.text


class Noted(SpotCheck):
    """Notes in which order it is called, and that vLLM samples between."""

    def __init__(self) -> None:
        super().__init__(UniformTest(), lambda _: None)
        self.calls: list[str] = []

    def begin(self, logits: torch.Tensor, batch: Any) -> Any:
        self.calls.append("begin")
        return "place"

    def end(self, place: Any, output: Any, invalid: Any) -> None:
        self.calls.append(f"end {place} {output} {invalid}")


def sampler(monkeypatch: pytest.MonkeyPatch, check: Noted | None, **changed: Any) -> CheckedSampler:
    def sample(self: Any, *args: Any) -> str:
        if check is not None:
            check.calls.append("sample")
        return "output"

    monkeypatch.setattr(RejectionSampler, "__call__", sample)
    made = CheckedSampler.__new__(CheckedSampler)
    made.check = check
    plain = {
        "enable_adaptive_verification": False,
        "use_block_verification": False,
        "synthetic_conditional_rates": None,
        "watermark_key": None,
        "sampler": SimpleNamespace(logits_processors=[BadWordsState.__new__(BadWordsState)]),
    }
    for name, value in {**plain, **changed}.items():
        setattr(made, name, value)
    return made


def test_a_place_is_chosen_before_and_tested_after_sampling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = Noted()

    output = sampler(monkeypatch, check)("logits", "batch", None, "invalid")

    assert output == "output"
    assert check.calls == ["begin", "sample", "end place output invalid"]


@pytest.mark.parametrize(
    ("changed", "draft_logits"),
    [
        ({}, "probabilities"),
        ({"enable_adaptive_verification": True}, None),
        ({"use_block_verification": True}, None),
        ({"synthetic_conditional_rates": [0.5]}, None),
        ({"watermark_key": 3}, None),
        ({"sampler": SimpleNamespace(logits_processors=[Noted()])}, None),
    ],
)
def test_what_is_accepted_by_other_rules_is_not_tested(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], draft_logits: Any
) -> None:
    check = Noted()

    sampler(monkeypatch, check, **changed)("logits", "batch", draft_logits, None)

    assert check.calls == ["sample"]


def test_a_rank_that_does_not_draft_samples_as_vllm_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sampler(monkeypatch, None)("logits", "batch") == "output"


def test_runners_get_the_sampler_that_can_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllms, "RejectionSampler", None)  # undone after the test

    take_our_sampler()

    assert vllms.RejectionSampler is CheckedSampler
