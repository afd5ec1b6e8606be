"""Drafts on their way from the model worker to the scheduler, each with where it is from."""

from collections.abc import Sequence
from dataclasses import dataclass

from vllm.v1.outputs import DraftTokenIds

from engine.drafting import Origin


@dataclass
class SourcedDraftTokenIds(DraftTokenIds):
    """vLLM's drafts by request, and what our scheduler is to know of them.

    Attributes:
        origins: Where each is from; None where there is no draft.
        native_tokens: How many tokens vLLM's own drafter shall propose in the next step; None where
            it has none. The scheduler tells all ranks, so that they run the same passes.
    """

    origins: Sequence[Origin | None] = ()
    native_tokens: int | None = None
