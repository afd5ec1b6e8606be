from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.heads import DraftHead, Guess, HeadMemory, SharedTables
from engine.heads.graphs import MOST_ROWS, round_up
from tests.fakes.cuda import MadeUpCuda
from tests.unit.engine.heads.conftest import HIDDEN, MakeHead

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
WINDOW = {"kind": "gated", "window": 4, "attention_head_size": 16, "draft_vocab_size": 20}
HEADS = {
    "mlp": {"kind": "mlp", "draft_vocab_size": 20},
    "lstm": {"kind": "lstm"},
    "gated": {"kind": "gated", "draft_vocab_size": 20},
    "medusa": {"kind": "medusa", "draft_vocab_size": 20},
    "window": WINDOW,
    "window tokens": {**WINDOW, "share_output": True, "window_tokens": True},
}


class Scene:
    """A head that drafts for some requests in some steps."""

    def __init__(self, head: DraftHead, device: torch.device, *, requests: int) -> None:
        output = head.shared.output
        head.shared = SharedTables(output=None if output is None else output.to(device))
        self.head = head.to(device)
        self.names = [str(number) for number in range(requests)]
        self.memory = None
        if head.config.window:
            self.memory = HeadMemory(self.head, requests=requests, device=device)
        draws = torch.Generator().manual_seed(1)
        self._states = torch.randn(9, requests, HIDDEN, generator=draws).to(device)
        self._step = 0

    def capture(self, rows: int) -> None:
        tables = None if self.memory is None else self.memory.tables
        self.head.capture(3, rows=rows, tables=tables)

    def skip(self) -> list[int]:
        """Take in a step in which each request gets a token; return the tokens."""
        self._step += 1
        tokens = [(7 * self._step + 5 * row) % 9 for row in range(len(self.names))]
        if self.memory is not None:
            sampled = [[token] for token in tokens]
            self.memory.note(self.names, sampled, self._states[self._step])
        return tokens

    def draft(self, rows: Sequence[int]) -> list[Guess]:
        """Take in a step, and draft for some of its requests."""
        tokens = self.skip()
        view = None
        if self.memory is not None:
            view = self.memory.view([self.names[row] for row in rows])
        newest = [tokens[row] for row in rows]
        found: list[Guess] = self.head.guess(self._states[self._step], rows, newest, 3, view)
        return found


def check(found: list[Guess], expected: list[Guess]) -> None:
    assert [draft for draft, _ in found] == [draft for draft, _ in expected]
    torch.testing.assert_close(
        Tensor([confidence for _, confidence in found]),
        Tensor([confidence for _, confidence in expected]),
        atol=1e-3,
        rtol=1e-2,
    )


@pytest.mark.parametrize(
    ("rows", "expected"), [(0, 1), (1, 1), (2, 2), (3, 4), (8, 8), (9, 16), (256, 256)]
)
def test_rows_are_rounded_up(rows: int, expected: int) -> None:
    assert round_up(rows) == expected


@pytest.mark.parametrize("fields", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("rows", [1, 3])
def test_what_stays_on_the_device_is_drafted_like_on_the_cpu(
    make_head: MakeHead, cuda: torch.device, fields: dict[str, Any], rows: int
) -> None:
    """Twice, as a graph writes to the memory that its last result was in."""
    states = [
        torch.randn(rows, HIDDEN, generator=torch.Generator().manual_seed(at)) for at in (1, 2)
    ]
    tokens = torch.arange(rows)
    expected = [make_head(**fields).propose(state, tokens, 3) for state in states]
    scene = Scene(make_head(**fields), cuda, requests=3)
    scene.capture(3)

    with torch.inference_mode():
        there = [scene.head.propose(state.to(cuda), tokens.to(cuda), 3) for state in states]

    for (found, chances), (drafts, confidence) in zip(there, expected, strict=True):
        assert found.cpu().tolist() == drafts.tolist()
        torch.testing.assert_close(chances.cpu(), confidence, atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize("fields", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("captured", [1, 3])
def test_graphs_draft_like_the_cpu(
    make_head: MakeHead, cuda: torch.device, fields: dict[str, Any], captured: int
) -> None:
    """With a graph for every size, or for one row only; windows fill up and wrap around."""
    batches: list[list[int]] = [[0], [2, 0, 1], [1], [1, 2], [0, 1, 2], [2], [0, 2]]
    on_cpu = Scene(make_head(**fields), CPU, requests=3)
    expected = [on_cpu.draft(rows) for rows in batches]

    on_cuda = Scene(make_head(**fields), cuda, requests=3)
    on_cuda.capture(captured)

    for rows, guesses in zip(batches, expected, strict=True):
        check(on_cuda.draft(rows), guesses)


@pytest.mark.parametrize("fields", [HEADS["lstm"], WINDOW], ids=["lstm", "window"])
def test_no_pass_captures_a_graph(
    make_head: MakeHead, made_up: MadeUpCuda, fields: dict[str, Any]
) -> None:
    scene = Scene(make_head(**fields), CUDA, requests=5)
    scene.capture(5)
    assert made_up.captures == 4  # 8, 4, 2 and 1 rows

    for rows in range(1, 6):
        scene.draft(range(rows))

    assert made_up.captures == 4


@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize(("captured", "copies"), [(8, 2), (1, 3)], ids=["graph", "mostly none"])
@pytest.mark.parametrize("fields", HEADS.values(), ids=HEADS)
def test_a_pass_waits_only_for_its_result(
    make_head: MakeHead,
    made_up: MadeUpCuda,
    fields: dict[str, Any],
    captured: int,
    copies: int,
    rows: int,
) -> None:
    """Also if it first has to write the entries of several steps."""
    scene = Scene(make_head(**fields), CUDA, requests=8)
    scene.capture(captured)
    scene.draft(range(rows))
    scene.skip()
    scene.skip()

    made_up.reset()
    scene.draft(range(rows))

    assert made_up.waits == ["copy to the host"]
    assert made_up.copies_in <= copies  # entries to write, rows to draft, where they look


def test_large_batches_have_no_graph(make_head: MakeHead, made_up: MadeUpCuda) -> None:
    head, rows = make_head(kind="gated"), range(MOST_ROWS + 1)
    states, tokens = torch.randn(len(rows), HIDDEN), [row % 7 for row in rows]
    expected = head.guess(states, rows, tokens, 2, None)

    head.to(CUDA).capture(2, rows=len(rows), tables=None)

    assert made_up.captures == MOST_ROWS.bit_length()
    check(head.guess(states.to(CUDA), rows, tokens, 2, None), expected)
