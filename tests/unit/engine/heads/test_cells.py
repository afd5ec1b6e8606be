import pytest
import torch

from engine.heads.cells import (
    apply_norm,
    make_norm,
)
from tests.unit.engine.heads import reference

WIDTH = 24


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=[False, True], ids=["drafting", "training"], autouse=True)
def path(request: pytest.FixtureRequest) -> object:
    """Formulas have one code path for drafting on CPUs and one for everything else."""
    with torch.set_grad_enabled(request.param):
        yield


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-6, 0.0], ids=str)
def test_the_norm_matches_the_formula_for_small_states(size: float) -> None:
    weight, bias, state = draw(WIDTH), draw(WIDTH, seed=1), size * draw(1, WIDTH, seed=2)

    found = apply_norm(state, make_norm(weight, bias))

    expected = reference.norm(state[0].double(), weight.double(), bias.double())
    torch.testing.assert_close(found[0].double(), expected, atol=1e-5, rtol=1e-5)
