"""Continues the training of a head on recorded traffic, and judges the result."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.errors import TrainingError
from engine.heads import IGNORED, DraftHead, SharedTables, TargetFacts, load_head
from engine.traffic import AdaptFolder
from engine.training.adapt.judge import judge
from engine.training.adapt.traffic import Traffic
from engine.training.examples import Cutter
from engine.training.group import Group
from engine.training.order import order_batches
from engine.training.recipe import TrainSettings
from engine.training.trainer import Trainer

_EPOCHS = 1
_LEAST_STEPS = 10
"""Little text is read several times."""

_BATCH_TOKENS = 1024
_RUN_TOKENS = 128
_LEARNING_RATE = 1e-3

_KEPT = 0.4
"""Share of the weights that the training started from in the result.

The result then still drafts well what was not trained on (Wortsman and others, "Robust fine-tuning
of zero-shot models", arXiv:2109.01903).
"""

MARGIN = 1.02
"""Acceptance on held-out text, over the serving head's, from which a new head is published."""

_LEAST_COUNT = 2
"""A token that came up less often does not enter the draft vocabulary."""

_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Tuned:
    """A fine-tuned head.

    Attributes:
        head: Float32 weights that bfloat16 can hold, ready to draft.
        before: Acceptance of the head that it started from, on held-out text, 0 to 1.
        after: Its own.
        steps: Of the optimizer.
    """

    head: DraftHead
    before: float
    after: float
    steps: int

    @property
    def is_better(self) -> bool:
        """Whether it is worth a trial."""
        return self.after >= MARGIN * self.before


def load_base(folder: Path, adapt: AdaptFolder) -> DraftHead:
    """Load the head to start from, in float32 on the CPU.

    Args:
        folder: Of the head.
        adapt: Has the target's tables.

    Raises:
        HeadError: It is no head, or not one for this target.
        TrafficError: The tables cannot be read.
        TrainingError: The target has no tables.
    """
    embedding, output, tokenizer = adapt.read_tables()
    is_tied = output is embedding  # and stays so
    embedding = None if embedding is None else embedding.float()
    output = embedding if is_tied else None if output is None else output.float()
    tables = SharedTables(embedding, output)
    table = tables.output if tables.output is not None else tables.embedding
    if table is None:
        raise TrainingError("the target keeps its tables where heads cannot read them")
    facts = TargetFacts(table.shape[1], table.shape[0], tokenizer, torch.float32, _CPU)
    return load_head(folder, facts, embedding=tables.embedding, output=tables.output)


def fine_tune(
    base: DraftHead, traffic: Traffic, *, seed: int, rest: Callable[[], None] = lambda: None
) -> Tuned:
    """Train a copy of a head.

    Args:
        base: Of `load_base`; not changed.
        traffic: What to learn from.
        seed: Of the order.
        rest: Called after each step.

    Raises:
        TrainingError: There is not enough memory.
    """
    head = _copy(base, traffic)
    steps = max(_LEAST_STEPS, _EPOCHS * len(traffic.training.tokens) // _BATCH_TOKENS)
    settings = TrainSettings(
        steps=steps,
        batch_tokens=_BATCH_TOKENS,
        micro_batch_tokens=_BATCH_TOKENS,
        run_tokens=_RUN_TOKENS,
        learning_rate=_LEARNING_RATE,
        # The head shares the target's output: its distribution is known at each row.
        distillation_ratio=1.0 if head.shared.output is not None else 0.0,
        distillation_temperature=0.5,
    )
    trainer = _trainer(head, settings)
    batches = order_batches(
        [len(traffic.training.tokens)],
        seed=seed,
        run_tokens=_RUN_TOKENS,
        batch_tokens=_BATCH_TOKENS,
        window_shards=None,
    )
    for step in range(steps):
        trainer.step(step, next(batches), [traffic.training], stop=False)
        rest()
    _blend(head, base)
    _round(head)
    before, after = (judge(each, traffic.held_out).ratio for each in (base, head))
    return Tuned(head, before, after, steps)


def _copy(base: DraftHead, traffic: Traffic) -> DraftHead:
    ids = base.vocabulary.ids
    config = base.config
    if ids is not None and config.share_output:  # the rows of the target serve any token
        ids = torch.tensor(choose_ids(ids.tolist(), traffic.counts()))
    head = DraftHead.new(config, ids, embedding=base.shared.embedding, output=base.shared.output)
    head.weights.load_state_dict(base.weights.state_dict())
    return head.train()


def choose_ids(known: list[int], counts: Counter[int]) -> list[int]:
    """Return a draft vocabulary of the same size with the tokens of the traffic.

    Tokens that came up take the places of tokens that did not: first of those with the highest ids,
    which tokenizers give to the rarest.

    Args:
        known: Target ids that the head drafts, rising.
        counts: Occurrences of target ids.
    """
    have = set(known)
    wanted = [
        token
        for token, count in counts.most_common()
        if count >= _LEAST_COUNT and token not in have
    ]
    unused = [token for token in reversed(known) if token not in counts]
    given_up = set(unused[: len(wanted)])
    return sorted((have - given_up) | set(wanted[: len(given_up)]))


def _trainer(head: DraftHead, settings: TrainSettings) -> Trainer:
    ids = head.vocabulary.ids
    draft_of = torch.arange(head.config.vocab_size)
    if ids is not None:
        draft_of = torch.full((head.config.vocab_size,), IGNORED)
        draft_of[ids] = torch.arange(len(ids))
    teacher = head.shared.output
    if teacher is not None and ids is not None:
        teacher = teacher[ids]
    cutter = Cutter(
        draft_of,
        run_tokens=settings.run_tokens,
        positions=head.config.positions,
        window=head.config.window,
        prompt_weight=settings.prompt_weight,
    )
    return Trainer(head, cutter, settings, teacher=teacher, group=Group(0, 1, _CPU))


@torch.no_grad()
def _blend(head: DraftHead, base: DraftHead) -> None:
    """Move the weights back towards those that the training started from."""
    start = base.weights.state_dict()
    for name, weight in head.weights.state_dict().items():
        weight.lerp_(start[name], _KEPT)


@torch.no_grad()
def _round(head: DraftHead) -> None:
    """Round the weights to what is stored, and make the head ready to draft."""
    for parameter in head.parameters():
        parameter.copy_(parameter.to(torch.bfloat16))
    head.eval()
