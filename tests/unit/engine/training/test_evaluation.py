import torch
from torch import Tensor

from engine.heads import Context, DraftHead, HeadConfig
from engine.training.evaluation import Evaluation, evaluate
from tests.unit.engine.training.tiny import shard_of


class CountsOn(DraftHead):
    """A head that drafts by counting."""

    def propose(
        self, hidden: Tensor, tokens: Tensor, n: int, context: Context | None = None
    ) -> tuple[Tensor, Tensor]:
        drafts = tokens[:, None] + torch.arange(1, n + 1)
        return drafts, torch.ones(drafts.shape)


def evaluated(*answers: tuple[str, list[int]], prompt: int = 0) -> Evaluation:
    config = HeadConfig(kind="mlp", hidden_size=4, vocab_size=50, inner_size=4, positions=2)
    tokens = torch.tensor([token for _, answer in answers for token in answer])
    shard = shard_of(
        torch.zeros(len(tokens), 4, dtype=torch.bfloat16),
        tokens,
        [len(answer) for _, answer in answers],
        prompts=[prompt] * len(answers),
        kinds=[kind for kind, _ in answers],
    )
    return evaluate(CountsOn.new(config), [shard], device=torch.device("cpu"))


def test_figures_by_kind_and_in_total() -> None:
    found = evaluated(("code", [1, 2, 3, 4, 9]), ("chat", [5, 5, 6]))

    assert found.as_json() == {
        "tokens": 8,
        "all": {
            "acceptance_ratio": 0.5,
            "acceptance_length": 1.75,
            "survival": [0.5, 0.5],
            "drafted": 6,
            "accepted": 3,
        },
        "kinds": {
            "chat": {
                "acceptance_ratio": 0.3333,
                "acceptance_length": 1.5,
                "survival": [0.5, 0.0],
                "drafted": 3,
                "accepted": 1,
            },
            "code": {
                "acceptance_ratio": 0.6667,
                "acceptance_length": 2.0,
                "survival": [0.5, 1.0],
                "drafted": 3,
                "accepted": 2,
            },
        },
    }
