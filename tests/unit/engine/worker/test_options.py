from pathlib import Path

import pytest
from pydantic import JsonValue

from engine.config import EngineSettings, Speculation
from engine.errors import ConfigError
from engine.models import ResolvedModel
from engine.worker.options import build_options, to_arguments

MODEL = ResolvedModel("/models/m", "my-model", is_local=True)


def settings(**values: object) -> EngineSettings:
    return EngineSettings.model_validate(values)


def test_accounting_is_always_on() -> None:
    options = build_options(settings(), MODEL, has_bfloat16=True)

    assert options["enable_per_request_metrics"] is True
    assert options["per_request_spec_decode_metrics"] == "detailed"
    assert options["enable_prompt_tokens_details"] is True
    assert options["enable_server_load_tracking"] is True
    assert options["disable_uvicorn_access_log"] is True


def test_model_is_served_under_its_own_name() -> None:
    options = build_options(settings(), MODEL, has_bfloat16=True)

    assert (options["model"], options["served_model_name"]) == ("/models/m", "my-model")


def test_a_socket_replaces_host_and_port() -> None:
    over_tcp = build_options(settings(port=9000), MODEL, has_bfloat16=True)
    over_socket = build_options(settings(port=9000, uds="w.sock"), MODEL, has_bfloat16=True)

    assert (over_tcp["host"], over_tcp["port"]) == ("127.0.0.1", 9000)
    assert over_socket["uds"] == "w.sock"
    assert {"host", "port"}.isdisjoint(over_socket)


@pytest.mark.parametrize(
    ("has_bfloat16", "given", "expected"),
    [
        (True, {}, None),
        (False, {}, "float32"),
        (False, {"dtype": "bfloat16"}, "bfloat16"),
        (False, {"dtype": "auto"}, "auto"),
    ],
)
def test_the_dtype_is_what_multiplies_quickly_unless_the_profile_says_more(
    has_bfloat16: bool, given: dict[str, JsonValue], expected: str | None
) -> None:
    options = build_options(settings(vllm=given), MODEL, has_bfloat16=has_bfloat16)

    assert options.get("dtype") == expected


def test_speculation_off_asks_for_no_acceptance_either() -> None:
    options = build_options(settings(speculation={"sources": "off"}), MODEL, has_bfloat16=True)

    assert {"speculative_config", "per_request_spec_decode_metrics"}.isdisjoint(options)
    assert {"scheduler_cls", "additional_config"}.isdisjoint(options)
    assert options["worker_cls"] == "engine.worker.worker.PlainWorker"


def test_our_sources_run_in_our_worker_and_scheduler() -> None:
    options = build_options(settings(speculation={"max_draft_tokens": 5}), MODEL, has_bfloat16=True)

    assert options["speculative_config"] == {
        "method": "custom_class",
        "model": "engine.worker.proposer.NoDrafts",
        "num_speculative_tokens": 5,
    }
    assert options["worker_cls"] == "engine.worker.worker.HybridWorker"
    assert options["scheduler_cls"] == "engine.worker.scheduler.HybridScheduler"
    assert options["async_scheduling"] is False


def test_a_drafter_of_vllm_keeps_its_options() -> None:
    config = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}
    chosen = {"sources": ["native"], "native": {"config": config}, "max_draft_tokens": 4}

    options = build_options(settings(speculation=chosen), MODEL, has_bfloat16=True)

    assert options["speculative_config"] == config


def test_settings_reach_the_model_worker_whole() -> None:
    chosen = settings(speculation={"suffix": {"capacity_mb": 7}})

    ours = build_options(chosen, MODEL, has_bfloat16=True)["additional_config"]

    assert isinstance(ours, dict)
    assert isinstance(ours["specgate"], dict)
    found = Speculation.model_validate(ours["specgate"]["speculation"])
    assert found == chosen.speculation


@pytest.mark.parametrize(
    ("speculation", "expected"),
    [
        ({}, "/cache/suffix/org-model"),
        ({"suffix": {"warm_start": False}}, None),
        (
            {
                "sources": ["native"],
                "native": {"config": {"method": "ngram", "num_speculative_tokens": 1}},
            },
            None,
        ),
    ],
    ids=["default", "cold", "no index"],
)
def test_an_index_is_kept_beside_the_models(
    speculation: dict[str, object], expected: str | None
) -> None:
    model = ResolvedModel("/models/m", "org/model", is_local=True)

    options = build_options(
        settings(cache_dir="/cache", speculation=speculation), model, has_bfloat16=True
    )

    assert isinstance(ours := options["additional_config"], dict)
    assert isinstance(found := ours["specgate"], dict)
    assert found["snapshot"] == expected


def test_a_head_is_named_by_its_folder(tmp_path: Path) -> None:
    chosen = {"sources": ["suffix", "head"], "head": {"path": str(tmp_path)}}

    options = build_options(settings(speculation=chosen), MODEL, has_bfloat16=True)

    assert isinstance(ours := options["additional_config"], dict)
    assert isinstance(found := ours["specgate"], dict)
    assert found["head"] == str(tmp_path)


def test_a_model_without_a_head_of_its_own_needs_a_folder() -> None:
    chosen = settings(model="org/model", speculation={"sources": ["head"]})

    with pytest.raises(ConfigError, match="no head ships for org/model"):
        build_options(chosen, MODEL, has_bfloat16=True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, []),
        (True, ["--an-option"]),
        (False, ["--no-an-option"]),
        (3, ["--an-option=3"]),
        (0.5, ["--an-option=0.5"]),
        ("text", ["--an-option=text"]),
        ("-1", ["--an-option=-1"]),
        ({"a": [1]}, ['--an-option={"a": [1]}']),
        (["x", 2], ["--an-option", "x", "2"]),
    ],
    ids=str,
)
def test_each_kind_of_value_becomes_arguments(value: JsonValue, expected: list[str]) -> None:
    assert to_arguments({"an_option": value}) == expected
