"""In training a head sees the same entries as in serving."""

import pytest
import torch

from engine.heads import DraftHead, HeadMemory
from engine.training.context import look_back, recall
from engine.training.shard import Shard
from tests.unit.engine.heads.conftest import head_with_window
from tests.unit.engine.training.tiny import shard_of, some_shard

WINDOW = 3


@pytest.fixture(params=[None, [1, 4, 9]], ids=["all tokens", "few tokens and those in the window"])
def head(request: pytest.FixtureRequest) -> DraftHead:
    made = head_with_window(WINDOW, request.param)
    with torch.no_grad():
        for attention in made.weights.attentions:
            attention.leave.weight *= 20
    made.eval()  # folds again
    return made


def random_shard(*lengths: int) -> Shard:
    draws = torch.Generator().manual_seed(3)
    rows = sum(lengths)
    hidden = torch.randn(rows, 32, generator=draws).to(torch.bfloat16)
    tokens = torch.randint(50, (rows,), generator=draws)
    return shard_of(hidden, tokens, lengths)


@pytest.mark.parametrize("prompts", [[0, 0], [1, 3]], ids=["answers", "prompts too"])
def test_a_row_sees_its_document_within_the_window(prompts: list[int]) -> None:
    shard = some_shard(2, 6, prompts=prompts)

    before = look_back(shard, torch.tensor([1, 3]), rows=3, window=WINDOW)

    # Entries belong to rows -1 to 3 and 1 to 5; documents begin at rows 0 and 2. The first entry
    # of each run (rows -2 and 0) is empty and visible to all.
    entries = [torch.arange(-1, 4), torch.arange(1, 6)]
    assert not before.mask[..., 0].any()
    seen = [
        [numbers[row[1:] == 0].tolist() for row in mask]
        for numbers, mask in zip(entries, before.mask, strict=True)
    ]
    assert seen == [[[1], [], [3]], [[3], [3, 4], [3, 4, 5]]]
    assert before.tokens[1].tolist() == [10, 11, 12, 13, 14, 15]
    assert before.hidden[1, :, 0].tolist() == [10, 11, 12, 13, 14, 15]


@pytest.mark.parametrize("run_rows", [1, 4, 12])
def test_training_and_serving_see_the_same(head: DraftHead, run_rows: int) -> None:
    shard = random_shard(5, 7)
    served = []
    for begin, length in ((0, 5), (5, 7)):
        memory = HeadMemory(head, requests=1, device=torch.device("cpu"))
        for row in range(begin, begin + length):
            hidden, token = shard.hidden[row : row + 1], shard.tokens[row : row + 1]
            memory.note(["a"], [token.tolist()], hidden)
            drafted, _ = head.propose(hidden, token, 3, memory.view(["a"]).context())
            served.append(drafted[0].tolist())

    starts = torch.arange(0, 12, run_rows)
    with torch.no_grad():
        context = recall(head, look_back(shard, starts, rows=run_rows, window=WINDOW))
    trained, _ = head.propose(shard.hidden, shard.tokens, 3, context)
    blind, _ = head.propose(shard.hidden, shard.tokens, 3)

    assert trained.tolist() == served
    assert blind.tolist() != served
