"""A small target, a head for it, and recorded traffic that the head does not know yet."""

import time
from pathlib import Path

import torch

from engine.heads import DraftHead, HeadConfig, save_head
from engine.traffic import AdaptFolder, Ring, Seal, Segment, digest_of

VOCABULARY, HIDDEN = 32, 16
TARGET = digest_of("a model")


def table() -> torch.Tensor:
    draws = torch.Generator().manual_seed(0)
    return torch.randn(VOCABULARY, HIDDEN, generator=draws).to(torch.bfloat16)


def made(folder: Path) -> AdaptFolder:
    """A folder with a target's tables and an untrained head that serves."""
    adapt, tables = AdaptFolder(folder / "adapt"), table()
    config = HeadConfig(
        kind="gated",
        hidden_size=HIDDEN,
        vocab_size=VOCABULARY,
        inner_size=HIDDEN,
        positions=2,
        draft_vocab_size=16,
        share_embedding=True,
        share_output=True,
        project_output=True,
    )
    head = DraftHead.new(config, list(range(16)), embedding=tables, output=tables, seed=1)
    save_head(head, folder / "serving", card={})
    adapt.write_tables(tables, tables, tokenizer=None)
    adapt.write_serving(folder / "serving", TARGET)
    return adapt


def record(adapt: AdaptFolder, requests: int, *, key: bytes | None = None, seed: int = 0) -> None:
    """Texts that count up in the upper half of the vocabulary; a state tells the token before."""
    ring = Ring(adapt.segments(0), max_bytes=1 << 30, seal=Seal(key))
    rows = table().float()
    for number in range(requests):
        first = 16 + (number + seed) % 16
        tokens = 16 + (torch.arange(first, first + 64) % 16)
        ring.write(
            Segment(
                digest_of("acme"),
                digest_of(f"{seed}-{number}"),
                TARGET,
                4,
                tokens.to(torch.int32),
                (2 * rows[tokens]).to(torch.bfloat16),
            ),
            began_ns=time.time_ns(),
        )
