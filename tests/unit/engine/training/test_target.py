from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from engine.config import EngineSettings
from engine.training.target import Target, load_target
from tests.unit.engine.training.tiny import HIDDEN_SIZE, write_target

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target"))


def load(folder: Path, dtype: str) -> Target:
    return load_target(str(folder), EngineSettings(vllm={"dtype": dtype}), device=CPU)


def test_states_are_the_output_layers_inputs(folder: Path) -> None:
    target = load(folder, "float32")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    text = [3, 1, 4, 1, 5]

    (states,) = target.read([text])

    assert states.shape == (5, HIDDEN_SIZE) == (5, target.hidden_size)
    with torch.no_grad():
        torch.testing.assert_close(states @ target.output.T, model(torch.tensor([text])).logits[0])


def test_padding_does_not_affect_shorter_texts(folder: Path) -> None:
    target = load(folder, "float32")

    _, short = target.read([[3, 1, 4, 1, 5], [2, 7]])

    torch.testing.assert_close(short[:2], target.read([[2, 7]])[0])


@pytest.mark.parametrize(
    ("multiplies", "expected"), [(True, torch.bfloat16), (False, torch.float32)]
)
def test_the_default_dtype_is_fast_on_the_processor(
    tmp_path: Path, multiplies: bool, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = AutoModelForCausalLM.from_pretrained(write_target(tmp_path), dtype=torch.bfloat16)
    model.save_pretrained(tmp_path)
    monkeypatch.setattr("engine.training.target.multiplies_bfloat16", lambda: multiplies)

    target = load_target(str(tmp_path), EngineSettings(), device=CPU)

    assert target.output.dtype == expected
