import json
from pathlib import Path
from typing import Any

import pytest

from engine.worker import preflight
from engine.worker.preflight import Preflight, check_profile

ROOT = Path(__file__).parents[4]
LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "max_position_embeddings": 1024,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    (folder / "model.safetensors").touch()
    (folder / "tokenizer.json").touch()
    return folder


def check(folder: Path, **section: Any) -> Preflight:
    profile = folder / "profile.yaml"
    profile.write_text(json.dumps({"engine": section}), encoding="utf-8")
    return check_profile(profile)


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.stem)
def test_the_profiles_of_this_repository_have_no_problems(path: Path) -> None:
    assert check_profile(path).problems == ()


def test_every_mistake_is_found_at_once(tmp_path: Path) -> None:
    found = check(
        tmp_path,
        modle="x",
        port=0,
        model="/no/where",
        vllm={
            "port": 1,
            "max_num_sequences": 4,
            "max_num_seqs": 0,
            "tool_call_parser": "herms",
            "reasoning_parser": "none",
            "enable_log_outputs": True,
        },
        environment={"PATH": "/", "VLLM_CPU_KVCACHE_SPAC": "2"},
        speculation={
            "sources": ["head", "native"],
            "native": {"config": {"method": "egle", "num_speculative_tokens": 2, "modl": "x"}},
        },
    )

    places = {line.partition(": ")[0] for line in found.problems}
    assert places == {
        "engine.modle",
        "engine.port",
        "engine.model",
        "engine.vllm.port",
        "engine.vllm.max_num_sequences",
        "engine.vllm.max_num_seqs",
        "engine.vllm.tool_call_parser",
        "engine.vllm.reasoning_parser",
        "engine.vllm.enable_log_outputs",
        "engine.environment.PATH",
        "engine.speculation.head.path",
        "engine.speculation.native.config.method",
        "engine.speculation.native.config.modl",
    }
    assert len(found.problems) == len(places)
    (odd,) = found.notes
    assert odd.endswith("did you mean VLLM_CPU_KVCACHE_SPACE?")


def test_pipeline_stages_are_refused_before_the_start(tmp_path: Path) -> None:
    (found,) = check(tmp_path, vllm={"pipeline_parallel_size": 2}).problems

    assert found.startswith("engine.vllm.pipeline_parallel_size: speculation does not support")


@pytest.mark.parametrize(
    ("facts", "sources", "noted"),
    [
        ({"mamba_d_state": 16}, ["suffix"], True),
        ({"text_config": {"linear_num_key_heads": 16}}, ["suffix"], True),
        ({"mamba_d_state": 16}, "off", False),
        ({}, ["suffix"], False),
    ],
    ids=["hybrid", "hybrid text", "no drafts", "attention"],
)
def test_the_states_that_drafts_need_are_noted(
    model: Path, facts: dict[str, Any], sources: Any, noted: bool
) -> None:
    (model / "config.json").write_text(json.dumps(LLAMA | facts), encoding="utf-8")
    speculation = {"sources": sources, "max_draft_tokens": 32}

    found = check(model.parent, model=str(model), speculation=speculation)

    assert not found.problems
    assert [note for note in found.notes if "33 states a request" in note] == (
        list(found.notes) if noted else []
    )


def test_a_parser_of_a_plugin_is_not_looked_up(tmp_path: Path) -> None:
    options = {"tool_call_parser": "ours", "tool_parser_plugin": "/ours.py"}

    assert check(tmp_path, vllm=options).problems == ()


def test_automatic_tool_choice_needs_a_parser(tmp_path: Path) -> None:
    (found,) = check(tmp_path, vllm={"enable_auto_tool_choice": True}).problems

    assert found == "engine.vllm.enable_auto_tool_choice: needs tool_call_parser"


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"vllm": {"max_model_len": 2048}}, "max_model_len: 2048 is more than the model's 1024"),
        ({"vllm": {"tensor_parallel_size": 3}}, "3 does not divide the model's 4 attention heads"),
    ],
    ids=["length", "parts"],
)
def test_sizes_that_do_not_fit_the_model(
    model: Path, section: dict[str, Any], problem: str
) -> None:
    (found,) = check(model.parent, model=str(model), **section).problems

    assert found.endswith(problem)


@pytest.mark.parametrize(
    "section",
    [
        {"vllm": {"max_model_len": 2048, "hf_overrides": {"rope_theta": 1}}},
        {
            "vllm": {"max_model_len": 2048},
            "environment": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"},
        },
        {"vllm": {"max_model_len": 1024, "tensor_parallel_size": 2}},
    ],
    ids=["overridden", "allowed", "fitting"],
)
def test_sizes_that_fit(model: Path, section: dict[str, Any]) -> None:
    assert check(model.parent, model=str(model), **section).problems == ()


@pytest.mark.parametrize(
    ("layers", "options", "fits"),
    [
        (8192, {}, True),  # 2 x 8192 layers x 2 heads x 16 x 2 bytes x 1024 tokens are 1 GiB
        (8193, {}, False),
        (8193, {"max_model_len": 512}, True),
        (8192, {"dtype": "float32"}, False),
        (8192, {"dtype": "float32", "kv_cache_dtype": "fp8"}, True),
    ],
)
def test_one_request_must_fit_into_the_cache(
    model: Path, layers: int, options: dict[str, Any], fits: bool
) -> None:
    config = json.dumps({**LLAMA, "num_hidden_layers": layers})
    (model / "config.json").write_text(config, encoding="utf-8")
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1"}

    found = check(model.parent, model=str(model), vllm=options, environment=environment)

    assert (found.problems == ()) == fits


def test_a_head_for_another_model_is_a_problem(model: Path, tmp_path: Path) -> None:
    head = tmp_path / "head"
    head.mkdir()
    config = {"format": "specgate-draft-head", "hidden_size": 32, "vocab_size": 100}
    (head / "config.json").write_text(json.dumps(config), encoding="utf-8")
    speculation = {"sources": ["head"], "head": {"path": str(head)}}

    (found,) = check(tmp_path, model=str(model), speculation=speculation).problems

    assert found.endswith("made for a model with hidden_size 32, not 64")


def test_a_missing_head_is_a_problem(model: Path, tmp_path: Path) -> None:
    speculation = {"sources": ["head"], "head": {"path": str(tmp_path / "none")}}

    (found,) = check(tmp_path, model=str(model), speculation=speculation).problems

    assert "no draft head in" in found


def test_an_id_of_hugging_face_is_not_looked_up(tmp_path: Path) -> None:
    found = check(tmp_path, model="org/name")

    assert found.problems == ()
    assert "taken for a Hugging Face id" in found.notes[0]


def test_an_untested_vllm_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "find_version", lambda: "0.33.1")

    (found,) = check(tmp_path, model="org/name").problems

    assert "0.33.1 was not tested" in found


def test_without_vllm_options_are_checked_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "find_version", lambda: None)

    found = check(tmp_path, model="org/name", vllm={"zzz": 1})

    assert found.problems == ("engine.vllm.zzz: vLLM has no such option",)
    assert found.notes[0] == "vLLM is not installed; options are those of 0.32.0"
