from typing import Any

import pytest

from engine.config import EngineSettings
from engine.errors import ConfigError
from engine.worker.runner import choose_runner


def settings(runner: str = "auto", **fields: Any) -> EngineSettings:
    return EngineSettings.model_validate({"model": "m", "runner": runner, **fields})


def drafter(**config: Any) -> dict[str, Any]:
    return {"speculation": {"sources": ["native"], "native": {"config": config}}}


@pytest.mark.parametrize(("has_triton", "runner"), [(True, "v2"), (False, "v1")])
def test_v2_runs_where_there_is_a_triton(has_triton: bool, runner: str) -> None:
    choice = choose_runner(settings(), has_triton=has_triton)

    assert choice.runner == runner
    assert "Triton" in choice.reason
    assert choice.environment() == {"VLLM_USE_V2_MODEL_RUNNER": "1" if runner == "v2" else "0"}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (drafter(method="medusa", num_speculative_tokens=2), "medusa"),
        (
            drafter(method="eagle", parallel_drafting=True, num_speculative_tokens=2),
            "parallel",
        ),
        (
            drafter(method="draft_model", use_heterogeneous_vocab=True, num_speculative_tokens=2),
            "vocabulary",
        ),
        ({"vllm": {"enable_dbo": True}}, "enable_dbo"),
    ],
)
def test_what_v2_lacks_runs_on_v1(fields: dict[str, Any], reason: str) -> None:
    choice = choose_runner(settings(**fields), has_triton=True)

    assert choice.runner == "v1"
    assert reason in choice.reason
    with pytest.raises(ConfigError, match=reason):
        choose_runner(settings("v2", **fields), has_triton=True)


def test_a_drafter_that_v2_has_runs_there() -> None:
    fields = drafter(method="dspark", parallel_drafting=True, num_speculative_tokens=2)

    assert choose_runner(settings(**fields), has_triton=True).runner == "v2"


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_a_setting_decides(runner: str) -> None:
    choice = choose_runner(settings(runner), has_triton=True)

    assert (choice.runner, choice.reason) == (runner, "as engine.runner says")


def test_v2_without_a_triton_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"engine\.runner: v2 needs a Triton"):
        choose_runner(settings("v2"), has_triton=False)
