"""Views compared with entries that are computed from all positions at once."""

import weakref
from itertools import accumulate
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.errors import HeadInputError
from engine.heads import Context, DraftHead, HeadMemory
from engine.heads.drafting import Update
from tests.unit.engine.heads.conftest import head_with_window

WINDOW = 4
CPU = torch.device("cpu")
EMPTY = torch.zeros(0, 32)
BYTES_OF_A_STATE = 32 * EMPTY.itemsize


@pytest.fixture(scope="module")
def head() -> DraftHead:
    return head_with_window(WINDOW)


class Text:
    """The text positions of one request."""

    def __init__(self, seed: int) -> None:
        draws = torch.Generator().manual_seed(seed)
        self.hidden = torch.randn(64, 32, generator=draws)
        self.tokens = torch.randint(50, (64,), generator=draws)
        self.rows = 0

    def more(self, rows: int) -> tuple[Tensor, list[int]]:
        begin, self.rows = self.rows, self.rows + rows
        return self.hidden[begin : self.rows], self.tokens[begin : self.rows].tolist()


def in_order(entries: list[Tensor]) -> Tensor:
    """Stack entries sorted by their first number, since a ring has its own order."""
    return torch.stack(sorted(entries, key=lambda entry: float(entry[0]))) if entries else EMPTY


def seen(context: Context | None, index: int) -> Tensor:
    """Return the visible entries of a request: key, value and token in one row."""
    if context is None:
        return EMPTY
    assert context.tokens is not None
    shown = [
        torch.cat(
            [
                *(part[index, :, entry].flatten() for part in (context.keys, context.values)),
                context.tokens[index, entry, None],
            ]
        )
        for entry in range(context.keys.shape[2])
        if context.mask is None or context.mask[index, 0, entry] == 0
    ]
    nothing, *entries = shown
    assert not nothing[:-1].any()
    assert nothing[-1] == -1
    return in_order(entries)


def expected(head: DraftHead, text: Text) -> Tensor:
    with torch.no_grad():
        keys, values = head.entries(text.hidden[: text.rows], text.tokens[: text.rows])
    begin = max(1, text.rows - WINDOW)
    return in_order(
        [
            torch.cat([keys[row - 1].flatten(), values[row].flatten(), text.tokens[row, None]])
            for row in range(begin, text.rows)
        ]
    )


def check(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def note(memory: HeadMemory, texts: dict[str, Text], counts: dict[str, int]) -> None:
    """Note a step that also has an unused state and an idle request."""
    parts = [texts[name].more(count) for name, count in counts.items()]
    starts = [1, *accumulate(counts.values(), initial=1)]
    memory.note(
        ["idle", *counts],
        [[], *(tokens for _, tokens in parts)],
        torch.cat([torch.zeros(1, 32), *(hidden for hidden, _ in parts)]),
        starts,
    )


def test_states_without_drafts_come_in_order(head: DraftHead) -> None:
    memory, texts = HeadMemory(head, requests=2, device=CPU), {"a": Text(1), "b": Text(2)}
    for _ in range(3):
        parts = [text.more(1) for text in texts.values()]
        states = torch.cat([hidden for hidden, _ in parts])
        memory.note(list(texts), [tokens for _, tokens in parts], states)

    context = memory.view(["a", "b"]).context()

    check(seen(context, 0), expected(head, texts["a"]))
    check(seen(context, 1), expected(head, texts["b"]))


@given(
    steps=st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 7), min_size=1),
        min_size=1,
        max_size=7,
    ),
    asked=st.sets(st.integers(0, 6)),
    most_kept=st.sampled_from([4, 20, 1000]),
)
@settings(max_examples=80, deadline=None)
def test_a_view_holds_the_last_entries_of_each_request(
    head: DraftHead, steps: list[dict[str, int]], asked: set[int], most_kept: int
) -> None:
    with patch("engine.heads.memory._MOST_BYTES", most_kept * BYTES_OF_A_STATE):
        memory = HeadMemory(head, requests=3, device=CPU)
    texts = {name: Text(seed) for seed, name in enumerate("abc")}

    for number, counts in enumerate(steps):
        note(memory, texts, counts)
        if number in asked or number == len(steps) - 1:
            names = ["c", "a", "b"]
            context = memory.view(names).context()
            for index, name in enumerate(names):
                check(seen(context, index), expected(head, texts[name]))


def test_a_freed_slot_shows_nothing_of_its_former_request(head: DraftHead) -> None:
    memory = HeadMemory(head, requests=1, device=CPU)
    note(memory, {"a": Text(1)}, {"a": 6})
    memory.forget(["a", "unknown"])
    after = Text(2)

    note(memory, {"b": after}, {"b": 2})

    check(seen(memory.view(["b"]).context(), 0), expected(head, after))
    assert list(memory.requests) == ["b"]


def test_clear_forgets_everything(head: DraftHead) -> None:
    memory = HeadMemory(head, requests=2, device=CPU)
    note(memory, {"a": Text(1), "b": Text(2)}, {"a": 3, "b": 3})

    memory.clear()

    assert not memory.requests
    assert not len(seen(memory.view(["a"]).context(), 0))
    note(memory, {"c": Text(3), "d": Text(4)}, {"c": 1, "d": 1})


def test_too_many_requests_are_an_error(head: DraftHead) -> None:
    memory = HeadMemory(head, requests=1, device=CPU)
    note(memory, {"a": Text(1)}, {"a": 1})

    note(memory, {"b": Text(1)}, {"b": 1})

    with pytest.raises(HeadInputError, match="no free slot for request 2"):
        memory.view(["a"]).context()


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of entries computed in each pass."""
    made: list[int] = []
    write = DraftHead.write

    def counted(self: DraftHead, update: Update) -> None:
        made.append(len(update.entries))
        write(self, update)

    monkeypatch.setattr(DraftHead, "write", counted)
    return made


def test_unviewed_steps_share_a_pass(head: DraftHead, passes: list[int]) -> None:
    memory, text = HeadMemory(head, requests=1, device=CPU), Text(1)
    for _ in range(3):
        note(memory, {"a": text}, {"a": 1})
    assert passes == []
    memory.view(["a"])
    assert passes == [3]

    for _ in range(40):
        note(memory, {"a": text}, {"a": 1})
    assert passes == [3]

    check(seen(memory.view(["a"]).context(), 0), expected(head, text))
    assert passes == [3, WINDOW + 1]


def test_unviewed_states_take_little_memory(
    head: DraftHead, passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.heads.memory._MOST_BYTES", 50 * BYTES_OF_A_STATE)
    memory, text = HeadMemory(head, requests=1, device=CPU), Text(1)
    steps = []

    for _ in range(41):
        note(memory, {"a": text}, {"a": 1})
        steps.append(weakref.ref(memory._noted[-1][2]))

    assert sum(step() is not None for step in steps) < 30
    assert passes == []
    check(seen(memory.view(["a"]).context(), 0), expected(head, text))
    assert passes == [WINDOW + 1]


def test_ignored_requests_have_no_entries(
    head: DraftHead,
) -> None:
    memory, text = HeadMemory(head, requests=1, device=CPU), Text(1)
    memory.ignore("off")
    note(memory, {"off": Text(2), "a": text}, {"off": 3, "a": 3})

    check(seen(memory.view(["a"]).context(), 0), expected(head, text))
    assert list(memory.requests) == ["a"]
    memory.clear()
    note(memory, {"off": Text(2)}, {"off": 3})
    assert memory.view(["off"]).context() is None

    memory.forget(["off"])
    again = Text(2)
    note(memory, {"off": again}, {"off": 3})

    check(seen(memory.view(["off"]).context(), 0), expected(head, again))
