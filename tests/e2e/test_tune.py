"""`specgate tune` with the real worker: a profile and a page from a few prompts."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.config import load_settings
from engine.models import CATALOGUE, folder_of
from tests.e2e.service import MODEL, ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

DEFAULT = ROOT / "configs" / "cpu-smollm2.yaml"
LAYERS = 2

PROMPTS = [
    "Count from one to twenty.",
    "Repeat: one two three one two three one two three one two three.",
    "Name five colours.",
]


def tune(folder: Path, *arguments: str, model: str = MODEL) -> subprocess.CompletedProcess[str]:
    data = folder / "data.jsonl"
    data.write_text("\n".join(json.dumps({"prompt": text}) for text in PROMPTS), encoding="utf-8")
    return subprocess.run(
        [
            Path(sys.executable).with_name("specgate"),
            *("tune", model, "--data", data, "--out", folder / "out"),
            *arguments,
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


def test_a_profile_and_a_page_are_made_and_a_second_call_measures_nothing(tmp_path: Path) -> None:
    arguments = ("--concurrency", "1,2", "--minutes", "2", "--drafters", "off,suffix")
    first = tune(tmp_path, *arguments)
    again = tune(tmp_path, *arguments)

    assert first.returncode == 0, first.stderr
    assert again.returncode == 0, again.stderr
    assert "starting a worker" not in again.stderr
    settings = load_settings(tmp_path / "out" / "profile.yaml", environ={})
    assert settings.model == MODEL
    assert settings.speculation.sources in {(), ("suffix",)}
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Recommended: " in page
    measured = json.loads((tmp_path / "out/measured/alone-suffix.json").read_text(encoding="utf-8"))
    assert measured["tokens"] > 0
    assert measured["step_ms"][0][0] == 1
    assert measured["memory_mib"] > 100
    assert sum(measured["accepted"]["suffix"]) > 0


def write_pair(folder: Path) -> tuple[Path, Path]:
    """Write a target and a draft model that says the same in a fraction of the time.

    They are SmolLM2 with all layers but the first few without effect, and these few layers alone.

    Returns:
        The folders of the target and of the draft model.
    """
    known = folder_of(CATALOGUE[MODEL], cache_dir=load_settings(None).cache_dir)
    (shard,) = known.glob("*.safetensors")
    weights = load_file(shard)
    config = json.loads((known / "config.json").read_text(encoding="utf-8"))
    slow, quick = dict[str, Tensor](), dict[str, Tensor]()
    for name, tensor in weights.items():
        layer = int(name.split(".")[2]) if name.startswith("model.layers.") else 0
        is_last = name.endswith(("o_proj.weight", "down_proj.weight"))
        slow[name] = torch.zeros_like(tensor) if layer >= LAYERS and is_last else tensor
        if layer < LAYERS:
            quick[name] = tensor
    for path, tensors, layers in (
        (folder / "target", slow, config["num_hidden_layers"]),
        (folder / "drafter", quick, LAYERS),
    ):
        path.mkdir()
        save_file(tensors, path / "model.safetensors")
        own = config | {"num_hidden_layers": layers}
        (path / "config.json").write_text(json.dumps(own), encoding="utf-8")
        for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            shutil.copy(known / name, path)
    return folder / "target", folder / "drafter"


def test_a_draft_model_is_measured_confirmed_and_recommended_where_it_is_the_best(
    tmp_path: Path,
) -> None:
    target, drafter = write_pair(tmp_path)
    native = {"method": "draft_model", "model": str(drafter), "num_speculative_tokens": 4}
    start = tmp_path / "start.yaml"
    engine = yaml.safe_load(DEFAULT.read_text(encoding="utf-8"))["engine"]
    engine["speculation"] = {"sources": ["native"], "native": {"config": native}}
    start.write_text(yaml.safe_dump({"engine": engine}), encoding="utf-8")

    arguments = ("--concurrency", "1", "--minutes", "3", "--drafters", "off,native")
    done = tune(tmp_path, *arguments, "--config", str(start), model=str(target))

    assert done.returncode == 0, done.stderr
    measured = tmp_path / "out" / "measured"
    alone = json.loads((measured / "alone-native.json").read_text(encoding="utf-8"))
    assert sum(alone["accepted"]["native"]) > 0.8 * sum(alone["drafted"]["native"]) > 0
    assert alone["trace"]
    confirmed = json.loads((measured / "cell-000.json").read_text(encoding="utf-8"))
    assert confirmed["native"]["1"] > confirmed["off"]["1"]
    settings = load_settings(tmp_path / "out" / "profile.yaml", environ={})
    assert settings.model == str(target)
    assert settings.speculation.sources == ("native",)
    assert settings.speculation.native is not None
    assert settings.speculation.native.config == native
