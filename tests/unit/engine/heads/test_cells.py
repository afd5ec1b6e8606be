import pytest
import torch

from engine.heads.cells import (
    GatedCell,
    LstmCell,
    MlpCell,
    apply_norm,
    join,
    make_input_norm,
    make_norm,
)
from tests.unit.engine.heads import reference

WIDTH = 24


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=[False, True], ids=["drafting", "training"], autouse=True)
def way(request: pytest.FixtureRequest) -> object:
    """Each formula has a way for drafting on CPUs and one for everything else."""
    with torch.set_grad_enabled(request.param):
        yield


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-6, 0.0], ids=str)
def test_norm_is_the_formula_however_small_the_state(size: float) -> None:
    weight, bias, state = draw(WIDTH), draw(WIDTH, seed=1), size * draw(1, WIDTH, seed=2)

    found = apply_norm(state, make_norm(weight, bias))

    expected = reference.norm(state[0].double(), weight.double(), bias.double())
    torch.testing.assert_close(found[0].double(), expected, atol=1e-5, rtol=1e-5)


def test_input_norm_divides_by_the_root_of_two() -> None:
    state = draw(1, WIDTH)

    found = apply_norm(state, make_input_norm(WIDTH, state))

    expected = reference.norm(state[0].double()) / 2**0.5
    torch.testing.assert_close(found[0].double(), expected, atol=1e-6, rtol=1e-5)


def test_shared_embedding_joins_each_gate() -> None:
    projected, embedded = draw(2, 4 * WIDTH), draw(2, WIDTH, seed=1)

    found = join(projected, embedded, 3.0)

    torch.testing.assert_close(found, projected + 3 * embedded.repeat(1, 4))


@pytest.mark.parametrize("gates", [3, 4])
def test_embeddings_of_four_gates_join_those_that_are_there(gates: int) -> None:
    projected, embedded = draw(2, gates * WIDTH), draw(2, 4 * WIDTH, seed=1)

    found = join(projected, embedded, 3.0)

    torch.testing.assert_close(found, projected + 3 * embedded[:, (4 - gates) * WIDTH :])


def test_first_step_of_an_lstm_has_a_memory_of_zero() -> None:
    cell = LstmCell(make_norm(draw(WIDTH), draw(WIDTH)), make_norm(draw(WIDTH), draw(WIDTH)))
    total = draw(2, 4 * WIDTH, seed=3)

    state, memory = cell.step(total[:, WIDTH:], None)

    expected_state, expected_memory = cell.step(total, torch.zeros(2, WIDTH))
    torch.testing.assert_close(state, expected_state)
    torch.testing.assert_close(memory, expected_memory)


def test_state_of_an_mlp_is_the_activation_of_the_normed_sum() -> None:
    weight, bias, total = draw(WIDTH), draw(WIDTH, seed=1), draw(1, WIDTH, seed=2)

    state, memory = MlpCell((), make_norm(weight, bias)).step(total, None)

    expected = reference.gelu(reference.norm(total[0].double(), weight.double(), bias.double()))
    torch.testing.assert_close(state[0].double(), expected, atol=1e-5, rtol=1e-5)
    assert memory is None


def test_state_of_a_gated_head_is_the_normed_sum_of_both_ways() -> None:
    norms = [(draw(WIDTH, seed=seed), draw(WIDTH, seed=seed + 1)) for seed in (1, 3)]
    enter, leave, total = draw(80, WIDTH, seed=5), draw(WIDTH, 40, seed=6), draw(1, WIDTH, seed=7)

    state, memory = GatedCell(
        make_norm(*norms[0]), lambda x: x @ enter.T, lambda x: x @ leave.T, make_norm(*norms[1])
    ).step(total, None)

    weights = {
        "cells.0.enter.weight": enter,
        "cells.0.leave.weight": leave,
        **{
            f"cells.0.{name}.{part}": tensor
            for name, parts in zip(("norm", "state_norm"), norms, strict=True)
            for part, tensor in zip(("weight", "bias"), parts, strict=True)
        },
    }
    expected = reference.GatedReference(weights, positions=1, tied=True, scaled=True).cell(
        0, total[0].double()
    )
    torch.testing.assert_close(state[0].double(), expected, atol=1e-4, rtol=1e-4)
    assert memory is None
