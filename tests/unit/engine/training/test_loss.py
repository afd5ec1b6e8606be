"""Compared with slow loops over single labels."""

import math

import pytest
import torch
from torch import Tensor

from engine.heads import DraftHead, HeadConfig, SharedTables
from engine.training.context import recall
from engine.training.examples import Cutter, Examples
from engine.training.loss import Counts, Sums, sum_losses, weigh
from engine.training.recipe import TrainSettings
from engine.training.shard import Shard
from tests.unit.engine.heads.conftest import head_with_window
from tests.unit.engine.training.tiny import shard_of

VOCAB, HIDDEN, POSITIONS = 12, 6, 2
PROMPT, PROMPT_WEIGHT = 3, 0.25
IDS = [1, 2, 3, 5, 8, 11]


@pytest.fixture
def head() -> DraftHead:
    config = HeadConfig(
        kind="lstm",
        hidden_size=HIDDEN,
        vocab_size=VOCAB,
        inner_size=5,
        positions=POSITIONS,
        draft_vocab_size=len(IDS),
    )
    made: DraftHead = DraftHead.new(config, IDS, seed=1).train()
    return made


@pytest.fixture
def shard() -> Shard:
    draws = torch.Generator().manual_seed(0)
    tokens = torch.randint(VOCAB, (14,), generator=draws)
    hidden = torch.randn(14, HIDDEN, generator=draws).to(torch.bfloat16)
    return shard_of(hidden, tokens, [9, 5], prompts=[PROMPT, 0])


@pytest.fixture
def teacher() -> Tensor:
    table: Tensor = torch.randn(len(IDS), HIDDEN, generator=torch.Generator().manual_seed(4))
    return table


def cut(shard: Shard) -> Examples:
    draft_of = torch.full((VOCAB,), -100)
    draft_of[IDS] = torch.arange(len(IDS))
    runs = torch.tensor([[0, -1], [0, 3], [0, 7], [0, 11]]).numpy()
    cutter = Cutter(draft_of, run_tokens=4, positions=POSITIONS, prompt_weight=PROMPT_WEIGHT)
    return cutter.cut([shard], runs)


def sum_slowly(
    head: DraftHead, shard: Shard, teacher: Tensor
) -> tuple[list[float], list[float], list[int], Counts]:
    hard, soft, hits = [0.0] * POSITIONS, [0.0] * POSITIONS, [0] * POSITIONS
    known, exist, weights = [0.0] * POSITIONS, [0.0] * POSITIONS, [0.0] * POSITIONS
    for row in range(14):
        end = 9 if row < 9 else 14
        given = [int(shard.tokens[min(row + i, 13)]) for i in range(POSITIONS)]
        scores = [score.detach() for score in head(shard.hidden[row], torch.tensor(given))]
        for position in range(POSITIONS):
            ahead = row + 1 + position
            if ahead >= end:
                continue
            weight = PROMPT_WEIGHT if row < PROMPT else 1
            weights[position] += weight
            logs = scores[position].log_softmax(-1)
            wanted = (teacher @ shard.hidden[ahead].float()).softmax(-1)
            soft[position] -= weight * float((wanted * logs).sum())
            if row < PROMPT:
                continue
            exist[position] += 1
            if (token := int(shard.tokens[ahead])) in IDS:
                known[position] += 1
                hard[position] -= float(logs[IDS.index(token)])
                hits[position] += int(logs.argmax()) == IDS.index(token)
    return hard, soft, hits, Counts(*map(torch.tensor, (known, exist, weights)))


def test_sums_match_single_labels(head: DraftHead, shard: Shard, teacher: Tensor) -> None:
    examples = cut(shard)

    found = sum_losses(head, examples, teacher)
    counts = Counts.of(examples.labels)

    hard, soft, hits, counted = sum_slowly(head, shard, teacher)
    assert found.hard.tolist() == pytest.approx(hard, rel=1e-5)
    assert found.soft.tolist() == pytest.approx(soft, rel=1e-5)
    assert found.hits.tolist() == hits
    for name in ("hard", "all", "soft"):
        assert getattr(counts, name).tolist() == getattr(counted, name).tolist()


def test_tokens_in_the_window_are_taught_too() -> None:
    ids, window, run_tokens = [1, 4, 9], 3, 4
    head = head_with_window(window, ids).train()
    assert head.shared.output is not None
    draws = torch.Generator().manual_seed(0)
    hidden = torch.randn(12, 32, generator=draws).to(torch.bfloat16)
    tokens = torch.tensor([1, 7, 4, 7, 20, 9, 1, 30, 4, 4, 7, 1])
    draft_of = torch.full((50,), -100)
    draft_of[ids] = torch.arange(len(ids))
    cutter = Cutter(draft_of, run_tokens=run_tokens, positions=3, window=window)
    examples = cutter.cut([shard_of(hidden, tokens, [12])], torch.tensor([[0, 4]]).numpy())
    teacher = torch.randn(50, 32, generator=draws)
    head.shared = SharedTables(None, torch.cat([teacher, teacher[:2]]))  # as vLLM pads it

    found = sum_losses(head, examples, teacher[ids])

    # The run consists of rows 4 to 7, which see rows 1 to 7: tokens 7, 4, 7, 20, 9, 1, 30.
    both = [*ids, 7, 20, 30]
    assert examples.before is not None
    states = head.unroll(
        hidden[4:8].float(),
        torch.stack([tokens[row : row + 3] for row in range(4, 8)]),
        recall(head, examples.before),
    )
    for position, state in enumerate(states):
        logs = (head.weights.outputs[0](state).detach() @ teacher[both].T).log_softmax(-1)
        taught = hidden[5 + position : 9 + position].float() @ teacher[both].T
        expected = -(taught.softmax(-1) * logs).sum()
        assert float(found.soft[position].detach()) == pytest.approx(float(expected), rel=1e-4)


def test_the_gradient_of_the_soft_loss_matches_torch(
    head: DraftHead, shard: Shard, teacher: Tensor
) -> None:
    examples = cut(shard)
    weights = examples.labels.weights

    found = sum_losses(head, examples, teacher, learns_hard=False).soft
    scores = head(examples.hidden[:, :4].flatten(0, 1), examples.tokens.flatten(0, 1))
    taught = (examples.hidden[:, 1:].float() @ teacher.T).softmax(-1)
    plain = [
        -(taught[:, at : at + 4].flatten(0, 1) * score.log_softmax(-1)).sum(-1)
        @ weights[..., at].flatten()
        for at, score in enumerate(scores)
    ]

    parameters = list(head.weights.parameters())
    ours = torch.autograd.grad((found * torch.tensor([1.0, 0.3])).sum(), parameters)
    theirs = torch.autograd.grad(plain[0] + 0.3 * plain[1], parameters)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)


def test_a_lower_temperature_sharpens_the_teacher(
    head: DraftHead, shard: Shard, teacher: Tensor
) -> None:
    examples = cut(shard)

    tempered = sum_losses(head, examples, teacher.clone(), temperature=0.5).soft
    sharper = sum_losses(head, examples, 2 * teacher).soft

    torch.testing.assert_close(tempered, sharper)
    assert not torch.allclose(tempered, sum_losses(head, examples, teacher).soft)


def test_the_loss_is_a_weighted_sum_of_means() -> None:
    settings = TrainSettings(steps=1, position_weights=(1.0, 0.5), distillation_ratio=0.25)
    sums = Sums(torch.tensor([8.0, 6.0]), torch.tensor([4.0, 10.0]), torch.zeros(2))
    counts = Counts(
        hard=torch.tensor([4.0, 3.0]), all=torch.zeros(2), soft=torch.tensor([4.0, 5.0])
    )

    loss = float(weigh(sums, counts, settings))

    assert loss == pytest.approx(0.75 * 2 + 0.25 * 1 + 0.5 * (0.75 * 2 + 0.25 * 2))


def test_a_batch_without_labels_costs_nothing() -> None:
    zeros = torch.zeros(2)
    counts = Counts(zeros, zeros, zeros)

    loss = weigh(Sums(zeros, zeros, zeros), counts, TrainSettings(steps=1))

    assert not math.isnan(float(loss))
    assert float(loss) == 0
