"""The drafts that the model worker sends to the scheduler, each with its source."""

from collections.abc import Sequence
from dataclasses import dataclass

from vllm.v1.outputs import DraftTokenIds

from engine.drafting import Origin


@dataclass
class SourcedDraftTokenIds(DraftTokenIds):
    """vLLM's drafts by request, with what our scheduler needs to know of them.

    Attributes:
        origins: Source of each draft; None for no draft.
        native_tokens: How many tokens vLLM's own drafter proposes in the next step; None if there
            is no such drafter. The scheduler tells all ranks, so that they run the same passes.
    """

    origins: Sequence[Origin | None] = ()
    native_tokens: int | None = None
