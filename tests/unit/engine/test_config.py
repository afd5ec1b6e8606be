import re
from pathlib import Path
from typing import Any

import pytest

from engine.config import export_environment, load_settings
from engine.errors import ConfigError


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "profile.yaml"
    path.write_text(
        "gateway: {port: 8000}\n"
        "engine:\n"
        "  model: some-org/some-model\n"
        "  vllm: {max_num_seqs: 4, max_model_len: 1024}\n",
        encoding="utf-8",
    )
    return path


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "written.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_profile_overrides_defaults(profile: Path) -> None:
    settings = load_settings(profile, environ={})

    assert settings.model == "some-org/some-model"
    assert settings.port == 8001
    assert settings.vllm == {"max_num_seqs": 4, "max_model_len": 1024}


def test_the_environment_overrides_the_profile(profile: Path) -> None:
    environ = {
        "SPECGATE_ENGINE__PORT": "9001",
        "SPECGATE_ENGINE__VLLM__MAX_NUM_SEQS": "8",
        "SPECGATE_ENGINE__ENVIRONMENT__VLLM_LOGGING_LEVEL": "DEBUG",
        "SPECGATE_ENGINE__SPECULATION__SOURCES": "off",
        "SPECGATE_GATEWAY__PORT": "1",
        "PATH": "unrelated",
    }

    settings = load_settings(profile, environ=environ)

    assert settings.port == 9001
    assert settings.vllm == {"max_num_seqs": 8, "max_model_len": 1024}
    assert settings.environment == {"VLLM_LOGGING_LEVEL": "DEBUG"}
    assert settings.speculation.sources == ()


@pytest.mark.parametrize("section", ["engine:\n", "gateway: {port: 1}\n"], ids=["empty", "absent"])
def test_a_profile_without_engine_settings_gives_the_defaults(tmp_path: Path, section: str) -> None:
    settings = load_settings(write(tmp_path, section), environ={})

    assert settings == load_settings(None, environ={})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("engine: {modle: x}", "engine.modle: unknown setting"),
        ("engine: {port: 70000}", "engine.port: Input should be less than or equal to 65535"),
        ("engine: {speculation: {sources: [magic]}}", "engine.speculation.sources.0: Input should"),
        (
            "engine: {speculation: {sources: [suffix, suffix]}}",
            "engine.speculation: sources lists a source twice",
        ),
        (
            "engine: {speculation: {suffix: {share: /tmp, warm_start: false}}}",
            "engine.speculation.suffix: share needs warm_start",
        ),
        (
            "engine: {speculation: {sources: [native]}}",
            "engine.speculation: the source native and the section native require each other",
        ),
        (
            "engine: {speculation: {sources: [native], native: {config: {method: ngram}}}}",
            "engine.speculation.native: config needs num_speculative_tokens of at least 1",
        ),
        (
            "engine: {speculation: {sources: [native], native: {config: "
            "{num_speculative_tokens: 1, rejection_sample_method: fly}}}}",
            "engine.speculation.native: rejection_sample_method fly would change",
        ),
        (
            "engine: {speculation: {step_cost: [[2, 1.0]]}}",
            "engine.speculation.step_cost: must begin with the time of a step of one token",
        ),
        ("engine: {vllm: {port: 1}}", "engine.vllm.port: set by the engine and not configurable"),
        (
            "engine: {vllm: {served-model-name: x}}",
            "engine.vllm.served-model-name: set by the engine and not configurable",
        ),
        (
            "engine: {environment: {PATH: /bin}}",
            "engine.environment.PATH: the name must begin with one of",
        ),
        (
            "engine: {environment: {VLLM_USE_V2_MODEL_RUNNER: 1}}",
            "engine.environment.VLLM_USE_V2_MODEL_RUNNER: set by the engine: engine.runner chooses",
        ),
        ("engine: {environment: {HF_TOKEN: x}}", "engine.environment.HF_TOKEN: a secret"),
        ("engine: [1]", "engine: must be a mapping"),
        ("engin: {}", "unknown section engin"),
        ("- 1", "expected the sections gateway: and engine:"),
        ("engine: {", "invalid YAML"),
    ],
)
def test_an_invalid_profile_is_rejected_with_one_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)) as caught:
        load_settings(write(tmp_path, text), environ={})

    assert len(caught.value.problems) == 1
    assert "\n" not in caught.value.problems[0]


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(write(tmp_path, "engine: {port: 0, modle: x}"), environ={})

    assert len(caught.value.problems) == 2


def test_a_missing_profile_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read"):
        load_settings(tmp_path / "absent.yaml", environ={})


@pytest.mark.parametrize(
    "name",
    [
        "SPECGATE_ENGINE__PROT",
        "SPECGATE_ENGINE__SPECULATION__METHODE",
        "SPECGATE_ENGINE_PORT",
        "SPECGATE_ENGINE__",
        "SPECGATE_ENGINE__VLLM__PORT",
    ],
)
def test_an_unknown_or_reserved_variable_is_rejected(name: str) -> None:
    with pytest.raises(ConfigError):
        load_settings(None, environ={name: "1"})


def test_an_invalid_variables_value_is_not_shown() -> None:
    with pytest.raises(
        ConfigError, match="SPECGATE_ENGINE__MODEL: the value is not valid YAML"
    ) as caught:
        load_settings(None, environ={"SPECGATE_ENGINE__MODEL": "{private"})

    assert "private" not in str(caught.value)


def test_the_cache_follows_xdg_cache_home() -> None:
    by_xdg = load_settings(None, environ={"XDG_CACHE_HOME": "/somewhere"})
    by_name = load_settings(
        None,
        environ={"XDG_CACHE_HOME": "/somewhere", "SPECGATE_ENGINE__CACHE_DIR": "~/mine"},
    )
    by_default = load_settings(None, environ={})

    assert by_xdg.cache_dir == Path("/somewhere/specgate")
    assert by_name.cache_dir == Path.home() / "mine"
    assert by_default.cache_dir == Path.home() / ".cache" / "specgate"


def test_only_forced_variables_override_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import os

    monkeypatch.setenv("VLLM_A", "process")
    monkeypatch.setenv("VLLM_B", "process")
    monkeypatch.delenv("VLLM_C", raising=False)

    export_environment({"VLLM_A": "profile", "VLLM_C": "profile"}, forced={"VLLM_B": "pinned"})

    assert [os.environ.pop(name) for name in ("VLLM_A", "VLLM_B", "VLLM_C")] == [
        "process",
        "pinned",
        "profile",
    ]


@pytest.mark.parametrize("text", ["off", "{sources: off}"], ids=["off", "no sources"])
def test_speculation_can_be_off(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, f"engine: {{speculation: {text}}}")

    assert load_settings(path, environ={}).speculation.sources == ()


def test_adapting_needs_a_head_and_watches_its_own_folder() -> None:
    adapt: Any = {"folder": "~/adapt"}

    found = load_settings(
        None, environ={}, overrides={"speculation": {"sources": ["head"], "head": {"adapt": adapt}}}
    )

    assert found.speculation.head.adapt is not None
    assert found.speculation.head.adapt.folder == Path.home() / "adapt"
    wrong: list[Any] = [
        {"sources": ["suffix"], "head": {"adapt": adapt}},
        {"sources": ["head"], "head": {"adapt": adapt, "watch": "/heads"}},
        {"sources": ["head"], "head": {"adapt": {**adapt, "max_mb": 1}}},
    ]
    for speculation in wrong:
        with pytest.raises(ConfigError, match=r"adapt|max_mb"):
            load_settings(None, environ={}, overrides={"speculation": speculation})
