import numpy as np
import pytest

from bench.gate_sim.processes import CHAT, CREATIVE, EDIT, SHORT, SURE, UNSURE, Process
from bench.gate_sim.texts import Texts

KINDS = [CHAT, EDIT, CREATIVE, SHORT, SURE, UNSURE]
COUNT = 160


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name, scope="module")
def texts(request: pytest.FixtureRequest) -> Texts:
    kind: Process = request.param
    return kind.write_texts(COUNT, 7)


def test_outcomes_have_their_stated_probability(texts: Texts) -> None:
    truth = texts.truth

    # Requests differ and copies are long, so neighbouring positions are far from independent.
    assert truth.suffix_right.mean() == pytest.approx(truth.suffix.sum(1).mean(), rel=0.08)
    assert truth.head_right.mean() == pytest.approx(truth.head.sum(1).mean(), rel=0.04)


@pytest.mark.parametrize("depth", [0, 3, 11], ids=str)
def test_tokens_of_a_copy_have_their_stated_survival(depth: int) -> None:
    texts = EDIT.write_texts(2 * COUNT, 3)
    offered = texts.offers.suffix_tokens > depth

    survived = (texts.truth.suffix_right > depth)[offered].mean()

    assert survived == pytest.approx(texts.truth.suffix[offered, depth].mean(), rel=0.06)


def test_what_is_known_before_a_pass_has_the_mean_of_what_is_known_after_it(texts: Texts) -> None:
    before, after = texts.truth.head_before.mean((0, 1)), texts.truth.head.mean(0)

    assert before.tolist() == pytest.approx(after.tolist(), rel=0.05)


def test_nothing_is_stated_beyond_what_is_offered(texts: Texts) -> None:
    offered = np.arange(texts.offers.suffix.shape[1]) < texts.offers.suffix_tokens[:, None]

    assert not texts.offers.suffix[~offered].any()
    assert not texts.truth.suffix[~offered].any()
    assert (texts.truth.suffix_right <= texts.offers.suffix_tokens).all()


def test_survival_never_rises(texts: Texts) -> None:
    for survival in (texts.offers.suffix, texts.truth.suffix, texts.truth.head):
        assert (np.diff(survival, axis=1) <= 0.0).all()


def test_the_same_seed_gives_the_same_texts_and_another_one_others() -> None:
    first, again, other = (EDIT.write_texts(8, seed) for seed in (1, 1, 2))

    assert np.array_equal(first.offers.suffix, again.offers.suffix)
    assert not np.array_equal(first.lengths, other.lengths)


def test_copies_are_offered_in_full_and_only_once_they_are_seen() -> None:
    texts = EDIT.write_texts(COUNT, 5)
    long = texts.offers.suffix_tokens == texts.offers.suffix_tokens.max()

    assert 0.3 < long.mean() < 0.6
    assert texts.truth.suffix_right[long].mean() > 10.0


def test_a_head_that_does_not_notice_says_what_it_said_before() -> None:
    sure, unsure = (kind.write_texts(COUNT, 0) for kind in (SURE, UNSURE))

    assert unsure.offers.confidence.mean() == pytest.approx(sure.offers.confidence.mean(), abs=0.02)
    assert unsure.truth.head_right.mean() < 0.4 * sure.truth.head_right.mean()
    assert np.array_equal(unsure.lengths, sure.lengths)
