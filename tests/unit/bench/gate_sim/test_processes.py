import numpy as np
import pytest

from bench.gate_sim.processes import (
    CHAT,
    CHAT_TOO_MODEST,
    CREATIVE,
    EDIT,
    EDIT_SHARP,
    EDIT_TOO_MODEST,
    EDIT_TOO_SURE,
    SHORT,
    SURE,
    UNSURE,
    WARM,
    Process,
)
from engine.simulation.texts import Texts

MISSTATED = [EDIT_TOO_SURE, EDIT_TOO_MODEST, EDIT_SHARP, WARM, CHAT_TOO_MODEST]
KINDS = [CHAT, EDIT, CREATIVE, SHORT, SURE, UNSURE, *MISSTATED]
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


def stated_ratio(kind: Process) -> tuple[float, float]:
    """Stated over true expected tokens, of the suffix source and of the head."""
    texts = kind.write_texts(COUNT, 1)
    head = np.cumprod(texts.offers.confidence, axis=1).sum() / texts.truth.head.sum()
    return float(texts.offers.suffix.sum() / texts.truth.suffix.sum()), float(head)


@pytest.mark.parametrize(
    ("kind", "suffix", "head"),
    [
        pytest.param(EDIT, 1.05, 1.05, id="calibrated"),
        pytest.param(EDIT_TOO_SURE, 1.5, 1.05, id="index too sure"),
        pytest.param(EDIT_TOO_MODEST, 0.67, 1.05, id="index too modest"),
        pytest.param(WARM, 1.2, 1.6, id="temperature 1"),
        pytest.param(CHAT_TOO_MODEST, 1.08, 0.58, id="head too modest"),
    ],
)
def test_sources_state_too_much_or_too_little_by_a_known_factor(
    kind: Process, suffix: float, head: float
) -> None:
    assert stated_ratio(kind) == pytest.approx((suffix, head), rel=0.06)


def test_a_sharp_source_errs_in_both_directions() -> None:
    texts = EDIT_SHARP.write_texts(COUNT, 1)
    offered = texts.offers.suffix_tokens > 0
    true, stated = texts.truth.suffix[offered, 0], texts.offers.suffix[offered, 0]

    likely, unlikely = true > 0.8, true < 0.4

    assert stated[likely].mean() > true[likely].mean()
    assert stated[unlikely].mean() < 0.7 * true[unlikely].mean()
    assert np.array_equal(texts.truth.suffix, EDIT.write_texts(COUNT, 1).truth.suffix)
