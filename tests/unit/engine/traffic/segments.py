"""Segments for tests."""

import torch

from engine.traffic import Segment, digest_of

HIDDEN = 8
TARGET = digest_of("a model")


def segment(
    tenant: str = "acme",
    request: str = "r",
    *,
    rows: int = 20,
    prompt_rows: int = 4,
    first: int = 0,
) -> Segment:
    tokens = torch.arange(first, first + rows, dtype=torch.int32) % 16
    hidden = torch.eye(16)[tokens.long(), :HIDDEN].to(torch.bfloat16)
    return Segment(digest_of(tenant), digest_of(request), TARGET, prompt_rows, tokens, hidden)
