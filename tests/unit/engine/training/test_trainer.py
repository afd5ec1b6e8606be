from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from engine.errors import TrainingError
from engine.heads import DraftHead, HeadConfig
from engine.training.examples import Cutter
from engine.training.group import Group
from engine.training.order import Batch
from engine.training.recipe import TrainSettings
from engine.training.shard import Shard
from engine.training.trainer import Trainer, learning_rate
from tests.unit.engine.training.tiny import shard_of

VOCAB, HIDDEN = 16, 8
ALONE = Group(0, 1, torch.device("cpu"))
BATCH = Batch((0,), np.array([[0, start] for start in range(0, 40, 4)]))

Make = Callable[..., Trainer]


@pytest.fixture
def shard() -> Shard:
    draws = torch.Generator().manual_seed(0)
    tokens = torch.arange(40) % VOCAB
    hidden = torch.randn(VOCAB, HIDDEN, generator=draws)[tokens].to(torch.bfloat16)
    return shard_of(hidden, tokens, [40])


@pytest.fixture
def make() -> Make:
    def make(group: Group = ALONE, **settings: Any) -> Trainer:
        config = HeadConfig(
            kind="mlp", hidden_size=HIDDEN, vocab_size=VOCAB, inner_size=8, positions=2
        )
        head = DraftHead.new(config, seed=1).train()
        given = {"steps": 20, "run_tokens": 4, "micro_batch_tokens": 16, "bfloat16": False}
        cutter = Cutter(torch.arange(VOCAB), run_tokens=4, positions=2)
        return Trainer(
            head, cutter, TrainSettings(**{**given, **settings}), teacher=None, group=group
        )

    return make


def weights(trainer: Trainer) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in trainer.head.parameters()]


@pytest.mark.parametrize("micro_batch_tokens", [1, 8, 1000])
def test_the_micro_batch_size_affects_rounding_only(
    make: Make, shard: Shard, micro_batch_tokens: int
) -> None:
    pair = make(), make(micro_batch_tokens=micro_batch_tokens)

    outcomes = [trainer.step(3, BATCH, [shard], stop=False) for trainer in pair]

    for one_position, other in zip(*(outcome.by_position() for outcome in outcomes), strict=True):
        assert one_position == pytest.approx(other)
    for a, b in zip(*map(weights, pair), strict=True):
        torch.testing.assert_close(a, b)


def test_micro_batches_shrink_when_memory_runs_out(
    make: Make, shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, short = make(), make()
    forward = DraftHead.forward

    def scarce(head: DraftHead, hidden: torch.Tensor, *others: Any) -> Any:
        if head is short.head and len(hidden) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(head, hidden, *others)

    monkeypatch.setattr(DraftHead, "forward", scarce)
    for trainer in (plain, short):
        trainer.step(3, BATCH, [shard], stop=False)

    assert short.micro_batch_tokens == 4
    for a, b in zip(weights(plain), weights(short), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("failure", "error", "message"),
    [
        (
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried",
            TrainingError,
            "not enough memory for one run of 4 positions",
        ),
        ("shapes cannot be multiplied", RuntimeError, "multiplied"),
    ],
    ids=["less memory than one run takes", "another failure"],
)
def test_other_failures_are_raised(
    make: Make,
    shard: Shard,
    monkeypatch: pytest.MonkeyPatch,
    failure: str,
    error: type[Exception],
    message: str,
) -> None:
    def failing(*_: object) -> None:
        raise RuntimeError(failure)

    monkeypatch.setattr(DraftHead, "forward", failing)

    with pytest.raises(error, match=message):
        make().step(0, BATCH, [shard], stop=False)


def test_the_learning_rate_rises_and_falls() -> None:
    settings = TrainSettings(steps=100, learning_rate=2.0, warmup_ratio=0.1, final_ratio=0.25)

    rates = [learning_rate(step, settings) for step in (0, 9, 10, 55, 99)]

    assert rates == pytest.approx([0.2, 2.0, 2.0, 1.25, 0.5], abs=1e-3)
