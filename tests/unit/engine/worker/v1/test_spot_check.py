import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.v1.sample.sampler import Sampler
from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

from engine.worker.uniform import UniformTest
from engine.worker.v1 import verification
from engine.worker.v1.spot_check import SpotCheck
from tests.unit.engine.worker.v1.test_verification import sampling

VOCABULARY = 11


def metadata_of(drafts: Sequence[Sequence[int]]) -> Any:
    found = SpecDecodeMetadata.make_dummy([list(draft) for draft in drafts], torch.device("cpu"))
    rows = sum(len(draft) + 1 for draft in drafts)
    last = found.cu_num_sampled_tokens.long() - 1
    drafted = torch.ones(rows, dtype=torch.bool).index_fill_(0, last, value=False)
    found.target_logits_indices = drafted.nonzero().squeeze(1)  # zeros in a dummy
    return found


def check(steps: int) -> UniformTest:
    """Verify so many steps of three requests, the first without a draft, and check them."""
    torch.manual_seed(5)
    rng, test = random.Random(5), UniformTest()
    spot_check = SpotCheck(test, rng)
    options = sampling(
        all_greedy=False,
        all_random=True,
        temperature=torch.tensor([1.0, 0.7, 1.3]),
        logitsprocs=SimpleNamespace(non_argmax_invariant=[], argmax_invariant=[]),
        output_token_ids=[],
    )
    for _ in range(steps):
        drafts = [[], [rng.randrange(3)], [rng.randrange(3), rng.randrange(3)]]
        logits = torch.randn(6, VOCABULARY) + torch.tensor([2.0] * 3 + [0.0] * (VOCABULARY - 3))
        metadata = metadata_of(drafts)
        before = logits.clone()
        place = spot_check.begin(metadata, logits, options)
        assert torch.equal(logits, before)
        output = verification.verify(metadata, logits, options, Sampler())
        if place is not None:
            spot_check.end(place, output.sampled_token_ids)
    return test


def test_what_we_verify_is_uniform() -> None:
    test = check(6_000)

    assert sum(test.counts) > 300
    assert test.evidence < 2.0


def test_a_defect_in_acceptance_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = verification._target_probabilities
    monkeypatch.setattr(verification, "_target_probabilities", lambda *step: honest(*step).sqrt())

    assert check(6_000).evidence > 6.0


def test_a_defect_in_what_replaces_a_token_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """All refused drafts are replaced by the target's likeliest token."""
    monkeypatch.setattr(Sampler, "sample", lambda _, logits, *__, **___: (logits.argmax(-1), None))

    assert check(6_000).evidence > 6.0


@pytest.mark.parametrize(
    "asked",
    [
        {"no_penalties": False},
        {"allowed_token_ids_mask": torch.zeros(1)},
        {"bad_words_token_ids": {0: [[1]]}},
    ],
)
def test_steps_with_other_probabilities_are_left_out(asked: dict[str, Any]) -> None:
    options = sampling(all_greedy=False, temperature=torch.tensor([1.0]), **asked)
    spot_check = SpotCheck(UniformTest())

    found = [
        spot_check.begin(metadata_of([[1]]), torch.zeros(2, VOCABULARY), options) for _ in range(99)
    ]

    assert not any(found)


def test_top_k_and_top_p_shape_the_probabilities() -> None:
    logits = torch.tensor([[4.0, 3.0, 2.0, 1.0, 0.0], [0.0] * 5])
    options = sampling(
        all_greedy=False,
        temperature=torch.tensor([1.0]),
        top_k=torch.tensor([2]),
        top_p=torch.tensor([1.0]),
    )
    spot_check = SpotCheck(UniformTest())

    places = [spot_check.begin(metadata_of([[0]]), logits, options) for _ in range(8)]

    (place,) = [place for place in places if place is not None]
    assert place.probabilities.tolist() == pytest.approx([0.7311, 0.2689, 0.0, 0.0, 0.0], abs=1e-4)


def test_greedy_requests_and_those_without_a_draft_are_left_out() -> None:
    options = sampling(all_greedy=False, temperature=torch.tensor([0.0, 1.0]))
    spot_check = SpotCheck(UniformTest())
    drafted = metadata_of([[1], []])

    assert not any(spot_check.begin(drafted, torch.zeros(3, 5), options) for _ in range(99))


def test_a_place_behind_a_refused_token_is_not_tested() -> None:
    test = UniformTest()
    spot_check = SpotCheck(test)
    options = sampling(all_greedy=False, temperature=torch.tensor([1.0]))
    places = [spot_check.begin(metadata_of([[1]]), torch.zeros(2, 5), options) for _ in range(8)]
    (place,) = [place for place in places if place is not None]

    spot_check.end(place, torch.tensor([[-1, -1]]))
    assert sum(test.counts) == 0
    spot_check.end(place, torch.tensor([[1, -1]]))
    assert sum(test.counts) == 1


def test_an_error_ends_the_checks_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    spot_check = SpotCheck(UniformTest())
    options = sampling(all_greedy=False, temperature=None)

    for _ in range(99):
        assert spot_check.begin(metadata_of([[1]]), torch.zeros(2, 5), options) is None

    assert caplog.text.count("not checked any more") == 1
