import numpy as np
import pytest

from bench.suffix.texts import edited_copies, far_copies, hostile_texts


def test_edited_copies_have_the_given_length_and_are_reproducible() -> None:
    corpus = np.arange(5000, dtype=np.int32)

    first = np.concatenate(list(edited_copies(corpus, 1_500_000, seed=1)))
    again = np.concatenate(list(edited_copies(corpus, 1_500_000, seed=1)))

    assert len(first) == 1_500_000
    assert first.dtype == np.int32
    np.testing.assert_array_equal(first, again)
    follows = np.mean(np.diff(first) == 1)
    assert 0.6 < follows < 0.9


@pytest.mark.parametrize("corpus", [1, 30])
def test_a_small_corpus_does(corpus: int) -> None:
    text = np.concatenate(list(edited_copies(np.full(corpus, 3, np.int32), 1000, seed=1)))

    assert len(text) == 1000


def test_hostile_texts_are_valid_tokens_of_one_length() -> None:
    for text in hostile_texts(2000, salt=7, seed=7).values():
        assert text.dtype == np.int32
        assert len(text) == 2000
        assert text.min() >= 0


def test_far_copies_are_passages_from_the_beginning_of_the_prompt() -> None:
    (request,) = far_copies(1, lengths=(20, 21), seed=1)

    early = bytes(request.prompt[: len(request.prompt) // 4 + 20])
    passages = request.answer.reshape(-1, 20)
    assert len(passages) == 24
    assert all(bytes(passage) in early for passage in passages)
