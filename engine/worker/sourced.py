"""Drafts on their way from the model worker to the scheduler, each with where it is from."""

from collections.abc import Sequence
from dataclasses import dataclass

from vllm.v1.outputs import DraftTokenIds

from engine.drafting import Origin


@dataclass
class SourcedDraftTokenIds(DraftTokenIds):  # type: ignore[misc]  # vllm is Any to mypy
    """vLLM's drafts by request, and the origin of each; None where there is no draft."""

    origins: Sequence[Origin | None] = ()
