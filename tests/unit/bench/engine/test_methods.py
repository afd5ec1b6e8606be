from pathlib import Path

from bench.engine.methods import methods_of, profile_of, same_workers, write_profile
from engine.config import EngineSettings, load_settings

NATIVE = {"method": "ngram", "num_speculative_tokens": 4}


def settings(**speculation: object) -> EngineSettings:
    return EngineSettings.model_validate({"speculation": speculation})


def test_a_profile_of_one_source_is_measured_once() -> None:
    assert same_workers(methods_of(settings(sources=["suffix"]))) == {"hybrid": "suffix"}


def test_each_source_of_a_profile_is_a_method_beside_all_of_them() -> None:
    methods = methods_of(settings(sources=["suffix", "native"], native={"config": NATIVE}))

    ours = {method.name: method.speculation["sources"] for method in methods if method.is_ours}
    assert ours == {
        "suffix": ["suffix"],
        "native": ["native"],
        "hybrid": ["suffix", "native"],
    }
    assert same_workers(methods) == {}


def test_every_profile_can_be_loaded_and_differs_in_drafting_alone(tmp_path: Path) -> None:
    given = settings(sources=["suffix", "native"], native={"config": NATIVE})
    path = tmp_path / "profile.yaml"
    seen = []

    for method in methods_of(given):
        write_profile(path, given, method)
        loaded = load_settings(path, environ={})
        seen.append(loaded)
        assert loaded.speculation.model_dump(mode="json") == method.speculation

    assert {s.environment["VLLM_CPU_KVCACHE_SPACE"] for s in seen} == {"1"}
    assert all(
        s.model_copy(update={"speculation": 0}) == seen[0].model_copy(update={"speculation": 0})
        for s in seen
    )
    assert not any(s.speculation.suffix.warm_start for s in seen)


def test_a_model_is_measured_with_the_profile_made_for_it() -> None:
    found = {
        model: profile_of(model) for model in (None, "smollm2-135m", "qwen2.5-coder-1.5b", "x")
    }

    assert {model: path.name for model, path in found.items()} == {
        None: "cpu-smollm2.yaml",
        "smollm2-135m": "cpu-smollm2.yaml",
        "qwen2.5-coder-1.5b": "cpu-qwen-coder-1.5b.yaml",
        "x": "cpu-smollm2.yaml",
    }


def test_only_the_baselines_run_vllms_own_scheduler() -> None:
    baselines = {m.name: m for m in methods_of(settings()) if m.baseline is not None}

    assert [name for name, method in baselines.items() if not method.baseline] == ["vllm"]
    assert all(not method.speculation["sources"] for method in baselines.values())
    assert {name for name, m in baselines.items() if m.needs_arctic} == {
        "arctic_suffix",
        "arctic_suffix_default",
    }
