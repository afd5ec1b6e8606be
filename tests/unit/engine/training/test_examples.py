import numpy as np
import torch

from engine.heads import IGNORED
from engine.training.examples import Cutter
from tests.unit.engine.training.tiny import some_shard


def cutter(*, run_tokens: int = 3, positions: int = 2, vocab: int = 100) -> Cutter:
    draft_of = torch.arange(200).where(torch.arange(200) < vocab, torch.tensor(IGNORED))
    return Cutter(draft_of, run_tokens=run_tokens, positions=positions, prompt_weight=0.25)


def test_a_row_gets_its_token_and_later_tokens_as_labels() -> None:
    found = cutter().cut([some_shard(20)], np.array([[0, 4]]))

    assert found.hidden[0, :, 0].tolist() == [14, 15, 16, 17, 18]
    assert found.tokens.tolist() == [[[14, 15], [15, 16], [16, 17]]]
    assert found.labels.draft_ids.tolist() == [[[15, 16], [16, 17], [17, 18]]]
    assert found.labels.exist.all()


def test_there_are_no_labels_after_the_end_of_an_answer() -> None:
    found = cutter().cut([some_shard(6, 5)], np.array([[0, 3]]))

    assert found.labels.draft_ids.tolist() == [[[14, 15], [15, IGNORED], [IGNORED, IGNORED]]]
    assert found.labels.exist.tolist() == [[[True, True], [True, False], [False, False]]]


def test_rows_of_a_prompt_have_soft_labels_only() -> None:
    # Rows 0 to 3 are a prompt, 4 and 5 its answer; then a document without prompt rows.
    found = cutter(run_tokens=4).label([some_shard(6, 3, prompts=[4, 0])], np.array([[0, 2]]))

    nothing = [IGNORED, IGNORED]
    assert found.draft_ids.tolist() == [[nothing, nothing, [15, IGNORED], nothing]]
    assert found.exist.tolist() == [[[False] * 2, [False] * 2, [True, False], [False] * 2]]
    assert found.weights.tolist() == [[[0.25, 0.25], [0.25, 0.25], [1, 0], [0, 0]]]


def test_rows_outside_of_a_shard_have_no_labels() -> None:
    found = cutter().cut([some_shard(5)], np.array([[0, -2], [0, 3]]))

    assert found.labels.exist[0].tolist() == [[False, False], [False, False], [True, True]]
    assert found.labels.exist[1].tolist() == [[True, False], [False, False], [False, False]]
    assert found.labels.draft_ids[0, 2].tolist() == [11, 12]


def test_a_token_outside_the_vocabulary_is_ignored() -> None:
    labels = cutter(vocab=13).label([some_shard(9)], np.array([[0, 0]]))

    assert labels.draft_ids.tolist() == [[[11, 12], [12, IGNORED], [IGNORED, IGNORED]]]
    assert labels.exist.all()
