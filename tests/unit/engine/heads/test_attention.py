"""Compared with the formulas, one query at a time, in float64."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from engine.heads.attention import Attention, Context, Recorder, attend, record
from engine.heads.cells import make_norm

RUNS, ROWS, ENTRIES, HEADS, SIZE, INNER = 2, 3, 5, 2, 8, 16


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


WEIGHT = {"query": draw(HEADS * SIZE, INNER), "leave": draw(INNER, HEADS * SIZE)}
NORM = make_norm(1 + 0.1 * draw(INNER), 0.1 * draw(INNER + 1)[:INNER])


@pytest.fixture
def attention() -> Attention:
    return Attention(
        norm=NORM,
        query=lambda x: functional.linear(x, WEIGHT["query"]),
        leave=lambda x: functional.linear(x, WEIGHT["leave"]),
        sharpness=torch.tensor([[2.0], [5.0]]),
        sink=torch.tensor([[0.3], [-1.0]]),
    )


def draw_context(mask: Tensor | None) -> Context:
    keys = functional.normalize(draw(RUNS, HEADS, ENTRIES, SIZE), dim=-1)
    values = draw(RUNS, HEADS, ENTRIES, SIZE) + 1
    # The first entry is empty.
    keys[:, :, 0] = values[:, :, 0] = 0
    return Context(keys, values, mask)


def norm_slowly(x: Tensor) -> Tensor:
    return x / math.sqrt(float((x * x).mean()) + 1e-6) * NORM.weight.double() + NORM.bias.double()


def attend_slowly(attention: Attention, total: Tensor, context: Context) -> Tensor:
    rows = []
    for number, row in enumerate(total.double()):
        run, index = divmod(number, ROWS)
        query = (WEIGHT["query"].double() @ norm_slowly(row)).view(HEADS, SIZE)
        found = []
        for head in range(HEADS):
            ask = query[head] / query[head].norm() * float(attention.sharpness[head])
            odds = [math.exp(float(attention.sink[head]))]
            for entry in range(1, ENTRIES):
                score = float(ask @ context.keys[run, head, entry].double())
                hidden = 0.0 if context.mask is None else float(context.mask[run, index, entry])
                odds.append(math.exp(score + hidden))
            values = context.values[run, head].double()
            weighed = [odds[entry] * values[entry] for entry in range(1, ENTRIES)]
            found.append(torch.stack(weighed).sum(0) / sum(odds))
        rows.append(row + WEIGHT["leave"].double() @ torch.cat(found))
    return torch.stack(rows)


@pytest.mark.parametrize("is_masked", [True, False], ids=["masked", "all seen"])
def test_attention_matches_the_formula(attention: Attention, is_masked: bool) -> None:
    mask = torch.zeros(RUNS, ROWS, ENTRIES)
    mask[0, 1, 2] = mask[1, 2, 1] = mask[1, 0, 1:4] = float("-inf")
    context, total = draw_context(mask if is_masked else None), draw(RUNS * ROWS, INNER)

    found = attend(attention, total, context)

    expected = attend_slowly(attention, total, context)
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-4)


def test_a_row_without_entries_is_unchanged(attention: Attention) -> None:
    mask = torch.full((RUNS, ROWS, ENTRIES), float("-inf"))
    mask[:, :, 0] = 0
    total = draw(RUNS * ROWS, INNER)

    assert attend(attention, total, draw_context(mask)).equal(total)


def test_keys_are_normalised_and_values_are_not() -> None:
    weight, total = draw(2 * HEADS * SIZE, INNER), draw(5, INNER)
    recorder = Recorder(NORM, lambda x: functional.linear(x, weight), HEADS)

    keys, values = record(recorder, total)

    for row in range(5):
        both = (weight.double() @ norm_slowly(total[row].double())).view(2, HEADS, SIZE)
        expected = both[0] / both[0].norm(dim=-1, keepdim=True)
        torch.testing.assert_close(keys[row].double(), expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(values[row].double(), both[1], atol=1e-5, rtol=1e-4)
