"""Step 4: measures a head's acceptance on held-out text, in total and by kind of prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import torch
from pydantic import JsonValue
from torch import Tensor

from engine.heads import DraftHead
from engine.training.context import Before, recall
from engine.training.replay import Acceptance, replay
from engine.training.shard import Shard


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The acceptance of a head's drafts.

    Attributes:
        kinds: Acceptance by kind of prompt.
        tokens: Number of held-out answer tokens.
    """

    kinds: dict[str, Acceptance]
    tokens: int

    @property
    def total(self) -> Acceptance:
        """Acceptance over all kinds."""
        return reduce(add, self.kinds.values())

    def as_json(self) -> dict[str, JsonValue]:
        """Return the figures in JSON form."""
        return {
            "tokens": self.tokens,
            "all": _figures(self.total),
            "kinds": {kind: _figures(found) for kind, found in sorted(self.kinds.items())},
        }


def evaluate(head: DraftHead, held_out: Sequence[Shard], *, device: torch.device) -> Evaluation:
    """Replay the acceptance of a head's drafts on held-out text.

    Args:
        head: Ready to draft, on `device`.
        held_out: The text; at least one answer.
        device: Where the head computes.
    """
    positions = head.config.positions

    @torch.inference_mode()
    def propose(hidden: Tensor, tokens: Tensor, before: Before | None) -> Tensor:
        context = None if before is None else recall(head, before.to(device))
        return head.propose(hidden.to(device), tokens.to(device), positions, context)[0].cpu()

    return Evaluation(
        replay(propose, held_out, positions=positions, window=head.config.window),
        tokens=sum(shard.answer_tokens for shard in held_out),
    )


def _figures(found: Acceptance) -> dict[str, JsonValue]:
    return {
        "acceptance_ratio": round(found.ratio, 4),
        "acceptance_length": round(found.length, 4),
        "survival": [round(share, 4) for share in found.by_position],
        "drafted": int(found.drafted.sum()),
        "accepted": int(found.accepted.sum()),
    }
