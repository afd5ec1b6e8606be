"""The C++ core compared with torch, for every shape of head that it supports."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.heads import DraftHead, Guess, HeadConfig, HeadMemory, compiled
from engine.heads.compiled import CompiledDrafting
from engine.heads.drafting import Drafting
from tests.unit.engine.heads.conftest import MEDUSA

HIDDEN, VOCAB, WINDOW = 48, 96, 4
CPU = torch.device("cpu")

SHAPES: dict[str, dict[str, Any]] = {
    "alone": {},
    "with a window": {"window": WINDOW, "attention_heads": 2, "attention_head_size": 16},
    "of few tokens": {"draft_vocab_size": 32, "scale_input": False},
    "with the target's tables": {
        "share_embedding": True,
        "share_output": True,
        "project_output": True,
        "draft_vocab_size": 32,
        "window": WINDOW,
        "attention_heads": 1,
        "attention_head_size": 32,
    },
    "with window tokens": {
        "share_output": True,
        "draft_vocab_size": 16,
        "window": WINDOW,
        "window_tokens": True,
        "attention_heads": 2,
        "attention_head_size": 16,
    },
    "with window tokens, projected": {
        "share_embedding": True,
        "share_output": True,
        "project_output": True,
        "draft_vocab_size": 16,
        "window": WINDOW,
        "window_tokens": True,
        "attention_heads": 1,
        "attention_head_size": 32,
    },
    "with weights for each position": {"tie_positions": False, "inner_size": 64},
}


def make(
    fields: dict[str, Any],
    dtype: torch.dtype = torch.bfloat16,
    tables: torch.dtype = torch.bfloat16,
) -> DraftHead:
    draws = torch.Generator().manual_seed(1)
    embedding, output = (torch.randn(VOCAB, HIDDEN, generator=draws).to(tables) for _ in range(2))
    whole = {
        "kind": "gated",
        "hidden_size": HIDDEN,
        "vocab_size": VOCAB,
        "inner_size": HIDDEN,
        "positions": 3,
        **fields,
    }
    config = HeadConfig(**whole)
    count = config.draft_vocab_size
    ids = None if count is None else range(1, 1 + 3 * count, 3)
    head = DraftHead.new(config, ids, embedding=embedding, output=output, seed=7)
    for parameter in head.parameters():
        if parameter.ndim == 1:
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=draws)
    head.to(dtype).eval()
    return head


def drafting_of(head: DraftHead) -> Drafting:
    head.prepare()
    assert head._drafting is not None
    return head._drafting


STATES = [torch.bfloat16, torch.float32]


def states(
    rows: int, seed: int = 5, dtype: torch.dtype = torch.bfloat16
) -> tuple[Tensor, list[int]]:
    draws = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, HIDDEN, generator=draws).to(dtype)
    return hidden, torch.randint(VOCAB, (rows,), generator=draws).tolist()


def first_tokens(guesses: list[Guess]) -> list[int]:
    return [tokens[0] for tokens, _ in guesses]


def agree(found: list[Guess], expected: list[Guess]) -> None:
    """Nearly all drafts are equal; bfloat16 breaks a few ties differently."""
    same = [a[0][0] == b[0][0] for a, b in zip(found, expected, strict=True)]
    assert sum(same) >= 0.85 * len(same)
    for equal, (_, ours), (_, theirs) in zip(same, found, expected, strict=True):
        if equal:
            assert ours[0] == pytest.approx(theirs[0], rel=0.15, abs=0.01)


@pytest.mark.parametrize("dtype", STATES, ids=str)
@pytest.mark.parametrize("fields", SHAPES.values(), ids=SHAPES)
def test_drafts_equal_torchs(
    fields: dict[str, Any], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = make(fields, tables=dtype)
    assert isinstance(drafting_of(head), CompiledDrafting)
    hidden, tokens = states(40, dtype=dtype)
    rows = list(range(3, 33))
    newest = [tokens[row] for row in rows]

    found = head.guess(hidden, rows, newest, 3, None)

    assert all(len(ids) == 3 and len(confidence) == 3 for ids, confidence in found)
    assert len(set(first_tokens(found))) > 5
    monkeypatch.setattr(compiled, "MOST_ROWS", 0)
    agree(found, head.guess(hidden, rows, newest, 3, None))


LOOKING = [name for name, fields in SHAPES.items() if "window" in fields]


@pytest.mark.parametrize("dtype", STATES, ids=str)
@pytest.mark.parametrize("name", LOOKING)
def test_entries_equal_torchs(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = make(SHAPES[name])
    names = [str(number) for number in range(16)]
    hidden, tokens = states(160, dtype=dtype)

    def run() -> tuple[HeadMemory, list[Guess]]:
        memory = HeadMemory(head, requests=len(names) + 1, device=CPU)
        guesses: list[Guess] = []
        # Requests have no entries, fewer than the window, or more.
        for begin, end in pairwise([0, 30, 70, 90, 160]):
            for at in range(begin, end):
                memory.note([names[at * at % 13]], [[tokens[at]]], hidden[at : at + 1])
            positions = [begin + number for number in range(len(names))]
            newest = [tokens[position] for position in positions]
            guesses += head.guess(hidden, positions, newest, 3, memory.view(names))
        return memory, guesses

    ours, found = run()
    monkeypatch.setattr(compiled, "_is_plain", lambda _: False)
    theirs, expected = run()

    agree(found, expected)
    for mine, other in zip(ours.view(names).tables, theirs.view(names).tables, strict=True):
        assert torch.allclose(mine, other, atol=0.05, rtol=0.05)
        assert mine.any()


@pytest.mark.parametrize("most_rows", [compiled.MOST_ROWS, 0], ids=["core", "torch"])
def test_tokens_in_the_window_are_drafted_beyond_the_vocabulary(
    most_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "MOST_ROWS", most_rows)
    head = make(SHAPES["with window tokens, projected"])
    assert head.vocabulary.ids is not None
    known = set(head.vocabulary.ids.tolist())
    hidden, tokens = states(200)
    beside = 0
    for begin in range(0, 200, 20):
        memory = HeadMemory(head, requests=1, device=CPU)
        said = tokens[begin : begin + 6]
        memory.note(["a"], [said], hidden[begin : begin + 6], [0])

        ((drafted, confidence),) = head.guess(
            hidden, [begin + 5], [said[-1]], 3, memory.view(["a"])
        )
        ((blind, _),) = head.guess(hidden, [begin + 5], [said[-1]], 3, None)

        assert set(blind) <= known
        # All but the oldest are within the window.
        assert set(drafted) <= known | set(said[-WINDOW:])
        assert all(0 < share <= 1 for share in confidence)
        beside += len(set(drafted) - known)
    assert beside >= 2


@pytest.mark.parametrize(
    "fields",
    [{"kind": "lstm"}, {"kind": "mlp"}, MEDUSA, {"inner_size": 40, "gated_size": 20}],
    ids=["lstm", "mlp", "medusa", "widths without a kernel"],
)
def test_unsupported_heads_draft_with_torch(fields: dict[str, Any]) -> None:
    head = make(fields)

    assert not isinstance(drafting_of(head), CompiledDrafting)
    hidden, tokens = states(2)
    assert len(head.guess(hidden, [0, 1], tokens, 3, None)) == 2


def test_a_token_outside_the_table_is_rejected() -> None:
    head = make({})
    hidden, _ = states(1)

    for token in (-1, VOCAB):
        with pytest.raises(IndexError, match="no such row"):
            head.guess(hidden, [0], [token], 3, None)
