"""Steps as vLLM makes them, compared with the entries of a whole text computed at once."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.heads import DraftHead, HeadMemory
from engine.worker.head import StepPositions, StepStates, note_prefill
from tests.unit.engine.heads.conftest import head_with_window

WINDOW, LONGEST, VOCABULARY = 4, 60, 50


@pytest.fixture(scope="module")
def head() -> DraftHead:
    return head_with_window(WINDOW)


class Request:
    """A text with known states at all positions, and the worker's progress with it."""

    def __init__(self, seed: int, *, prompt: int, cached: int = 0) -> None:
        draws = torch.Generator().manual_seed(seed)
        self.hidden = torch.randn(LONGEST, 32, generator=draws)
        self.tokens = torch.randint(VOCABULARY, (LONGEST,), generator=draws)
        self.known = prompt
        self.computed = self.first = cached

    def expected(self, head: DraftHead) -> Tensor:
        """Return the entries before the newest token, key and value in one row."""
        rows = slice(max(self.first, self.known - 2 - WINDOW), self.known - 1)
        with torch.no_grad():
            keys, values = head.entries(
                self.hidden[rows], self.tokens[rows.start + 1 : rows.stop + 1]
            )
        return torch.cat([keys[:-1].flatten(1), values[1:].flatten(1)], 1)


@dataclass
class Part:
    """A request's part of a step: positions computed, drafts among them, tokens sampled."""

    positions: int
    drafts: int = 0
    brings: int = 1


class Scene:
    """Steps of a worker over some requests."""

    def __init__(self, head: DraftHead, **requests: Request) -> None:
        self.memory = HeadMemory(head, requests=len(requests), device=torch.device("cpu"))
        self.requests = requests
        self.wants: Callable[[str], bool] = lambda _: True

    def step(self, **parts: Part) -> list[str]:
        """Return the requests that got tokens."""
        table = np.zeros((len(parts), LONGEST), np.int32)
        sampled, hidden, drawn_from = [], [], []
        for row, (name, part) in enumerate(parts.items()):
            one = self.requests[name]
            end = one.computed + part.positions
            reaches = end - part.drafts >= one.known
            brings = part.brings if reaches else 0
            hidden.append(one.hidden[one.computed : end])
            drawn_from.append(one.hidden[end - part.drafts - 1 : end])
            sampled.append(one.tokens[one.known : one.known + brings].tolist())
            table[row, : one.known + brings] = one.tokens[: one.known + brings]
        names = list(parts)
        positions = StepPositions(
            names,
            [self.requests[name].computed for name in names],
            [part.positions for part in parts.values()],
            [self.requests[name].known for name in names],
            lambda row, begin, end: table[row, begin:end].tolist(),
        )
        of_all = torch.cat([*hidden, torch.full((3, 32), torch.nan)])  # vLLM may pad them
        note_prefill(
            self.memory,
            of_all,
            positions,
            wants=self.wants,
            vocabulary=VOCABULARY,
            reused=True,
        )
        of_all.fill_(torch.nan)  # and reuse their memory
        states = StepStates(torch.cat(drawn_from), [part.drafts for part in parts.values()])
        self.memory.note(names, sampled, states.hidden, states.first)
        for name, new in zip(names, sampled, strict=True):
            one = self.requests[name]
            one.computed = one.computed + parts[name].positions - parts[name].drafts
            if new:
                one.computed += len(new) - 1
            one.known += len(new)
        return [name for name, new in zip(names, sampled, strict=True) if new]

    def read(self, name: str, *chunks: int) -> None:
        for chunk in chunks:
            self.step(**{name: Part(chunk)})

    def preempt(self, name: str, *, cached: int) -> None:
        """Preempt a request; the prefix cache keeps some of it."""
        self.memory.forget([name])
        one = self.requests[name]
        one.computed = one.first = cached

    def check(self, head: DraftHead, *names: str) -> None:
        context = self.memory.view(list(names)).context()
        for index, name in enumerate(names):
            expected = self.requests[name].expected(head)
            if context is None:
                assert not len(expected)
                continue
            found = [
                torch.cat([part[index, :, entry].flatten() for part in context[:2]])
                for entry in range(1, context.keys.shape[2])
                if context.mask is None or context.mask[index, 0, entry] == 0
            ]
            assert len(found) == len(expected)
            torch.testing.assert_close(in_order(found), in_order(list(expected)))


def in_order(entries: list[Tensor]) -> Tensor:
    return torch.stack(sorted(entries, key=lambda entry: float(entry[0]))) if entries else Tensor()


@pytest.mark.parametrize(
    ("prompt", "chunks"),
    [
        (9, [9]),
        (9, [1, 8]),
        (9, [1] * 9),
        (3, [2, 1]),
        (1, [1]),
        (WINDOW + 1, [WINDOW + 1]),
        (30, [27, 2, 1]),
    ],
)
def test_the_window_covers_a_prompt_in_any_chunks(
    head: DraftHead, prompt: int, chunks: list[int]
) -> None:
    scene = Scene(head, a=Request(1, prompt=prompt))

    scene.read("a", *chunks)
    scene.check(head, "a")

    scene.step(a=Part(3, drafts=2, brings=2))
    scene.check(head, "a")


@pytest.mark.parametrize("cached", [4, 7, 8])
def test_the_window_begins_after_cached_positions(head: DraftHead, cached: int) -> None:
    scene = Scene(head, a=Request(1, prompt=9, cached=cached))

    scene.read("a", 9 - cached)

    scene.check(head, "a")


def test_requests_that_never_use_the_head_are_ignored(head: DraftHead) -> None:
    scene = Scene(head, off=Request(1, prompt=9), on=Request(2, prompt=5))
    scene.wants = lambda name: name == "on"

    scene.step(off=Part(7), on=Part(5))
    scene.step(off=Part(2), on=Part(1))

    scene.check(head, "on")
    assert list(scene.memory.requests) == ["on"]


def test_placeholder_tokens_are_left_out(head: DraftHead) -> None:
    one = Request(1, prompt=9)
    one.tokens[7] = VOCABULARY
    scene = Scene(head, a=one)

    scene.read("a", 9)

    assert scene.memory.view(["a"]).context() is None


def test_states_that_are_not_overwritten_are_not_copied(
    head: DraftHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Request(1, prompt=3), Request(2, prompt=9)
    hidden = torch.cat([one.hidden[:3], other.hidden[:9]])
    kept: list[object] = []
    monkeypatch.setattr(HeadMemory, "note", lambda _, *given: kept.extend(given))

    note_prefill(
        HeadMemory(head, requests=2, device=torch.device("cpu")),
        hidden,
        StepPositions(
            ["a", "b"],
            [0, 0],
            [3, 9],
            [3, 9],
            lambda row, begin, end: (one, other)[row].tokens[begin:end].tolist(),
        ),
        wants=lambda _: True,
        vocabulary=VOCABULARY,
        reused=False,
    )

    # For "b" only positions within reach.
    names, tokens, states, first = kept
    assert (names, first) == (["a", "b"], [0, 3 + 9 - (WINDOW + 1)])
    assert tokens == [one.tokens[1:3].tolist(), other.tokens[5:9].tolist()]
    assert states is hidden


steps = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(0, 3)),
        min_size=1,
    ),
    min_size=1,
    max_size=9,
)


@given(steps=steps, lost=st.sets(st.tuples(st.integers(0, 8), st.sampled_from(["a", "b", "c"]))))
@settings(max_examples=60, deadline=None)
def test_any_sequence_of_steps_gives_the_same_entries(
    head: DraftHead,
    steps: list[dict[str, tuple[int, int, int]]],
    lost: set[tuple[int, str]],
) -> None:
    scene = Scene(
        head, a=Request(1, prompt=12), b=Request(2, prompt=3), c=Request(3, prompt=25, cached=5)
    )

    for number, step in enumerate(steps):
        for name in sorted(name for at, name in lost if at == number):
            scene.preempt(name, cached=min(2, scene.requests[name].known - 1))
        parts = {}
        for name, (positions, drafts, accepted) in step.items():
            unread = scene.requests[name].known - scene.requests[name].computed
            if unread == 1:
                parts[name] = Part(1 + drafts, drafts, 1 + min(accepted, drafts))
            else:
                parts[name] = Part(min(positions, unread))
        scene.check(head, *scene.step(**parts))
