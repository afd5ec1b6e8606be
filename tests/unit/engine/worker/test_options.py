import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from engine.config import EngineSettings, Speculation
from engine.errors import ConfigError
from engine.models import ResolvedModel
from engine.worker.options import (
    NATIVE_IN_STEP,
    build_options,
    find_parallel_problems,
    to_arguments,
)

MODEL = ResolvedModel("/models/m", "my-model", is_local=True)


def settings(**values: object) -> EngineSettings:
    return EngineSettings.model_validate(values)


def test_a_socket_replaces_host_and_port() -> None:
    over_tcp = build_options(settings(port=9000), MODEL, has_bfloat16=True, is_v2=False)
    over_socket = build_options(
        settings(port=9000, uds="w.sock"), MODEL, has_bfloat16=True, is_v2=False
    )

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
def test_the_default_dtype_is_fast_on_this_device(
    has_bfloat16: bool, given: dict[str, JsonValue], expected: str | None
) -> None:
    options = build_options(settings(vllm=given), MODEL, has_bfloat16=has_bfloat16, is_v2=False)

    assert options.get("dtype") == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["--tool-strict-level=parameter"]),
        ({"tool-strict-level": "auto"}, ["--tool-strict-level=auto"]),
        ({"tool_strict_level": None}, []),
    ],
    ids=["default", "set", "vLLM's own"],
)
def test_arguments_of_tools_follow_their_schema_unless_a_profile_differs(
    given: dict[str, JsonValue], expected: list[str]
) -> None:
    arguments = to_arguments(
        build_options(settings(vllm=given), MODEL, has_bfloat16=True, is_v2=False)
    )

    assert [text for text in arguments if "tool-strict" in text] == expected


def test_speculation_off_sets_no_speculative_options() -> None:
    options = build_options(
        settings(speculation={"sources": "off"}), MODEL, has_bfloat16=True, is_v2=False
    )

    assert {"speculative_config", "per_request_spec_decode_metrics"}.isdisjoint(options)
    assert options["scheduler_cls"] == "engine.worker.resume.ResumingScheduler"
    assert options["worker_cls"] == "engine.worker.worker.PlainWorker"


def test_a_worker_that_writes_hidden_states_neither_drafts_nor_schedules_as_ours() -> None:
    config = {"method": "extract_hidden_states", "num_speculative_tokens": 1}
    speculation = {"sources": ["native"], "native": {"config": config}}

    options = build_options(
        settings(speculation=speculation), MODEL, has_bfloat16=True, is_v2=False
    )

    assert options["worker_cls"] == "engine.worker.worker.PlainWorker"
    assert options["speculative_config"] == config
    assert "scheduler_cls" not in options


@pytest.mark.parametrize("sources", ["off", ["suffix"]])
@pytest.mark.parametrize("on", [True, False])
def test_the_worker_knows_whether_to_use_our_kernels(sources: object, on: bool) -> None:
    chosen = settings(speculation={"sources": sources}, cpu_kernels=on)

    options = build_options(chosen, MODEL, has_bfloat16=True, is_v2=False)

    assert isinstance(ours := options["additional_config"], dict)
    assert isinstance(found := ours["specgate"], dict)
    assert found["cpu_kernels"] is on


def test_a_model_without_a_head_starts_only_with_a_watched_folder() -> None:
    without = settings(model="another", speculation={"sources": ["head"]})
    head = {"watch": "/heads/mine"}
    watching = settings(model="another", speculation={"sources": ["head"], "head": head})

    with pytest.raises(ConfigError, match="no head ships for another"):
        build_options(without, MODEL, has_bfloat16=True, is_v2=False)
    options = build_options(watching, MODEL, has_bfloat16=True, is_v2=False)

    assert isinstance(ours := options["additional_config"], dict)
    assert isinstance(found := ours["specgate"], dict)
    assert found["head"] is None


def test_our_sources_run_in_our_worker_and_scheduler() -> None:
    options = build_options(
        settings(speculation={"max_draft_tokens": 5}), MODEL, has_bfloat16=True, is_v2=False
    )

    assert options["speculative_config"] == {
        "method": "custom_class",
        "model": "engine.worker.v1.runner.NoDrafts",
        "num_speculative_tokens": 5,
    }
    assert options["worker_cls"] == "engine.worker.worker.HybridWorker"
    assert options["scheduler_cls"] == "engine.worker.scheduler.HybridScheduler"
    assert options["async_scheduling"] is False


def test_on_v2_our_runner_takes_the_place_of_a_drafter_that_vllm_accepts() -> None:
    options = build_options(
        settings(speculation={"max_draft_tokens": 5}), MODEL, has_bfloat16=True, is_v2=True
    )

    assert options["speculative_config"] == {"method": "ngram_gpu", "num_speculative_tokens": 5}


@pytest.mark.parametrize(
    ("vllm", "is_v2", "expected"),
    [
        ({}, True, None),
        ({"async_scheduling": False}, True, False),
        ({"async_scheduling": True}, True, True),
        ({"data_parallel_size": 2}, True, False),
        ({}, False, False),
    ],
    ids=["vLLM's default", "off", "on", "several engines", "V1"],
)
def test_async_scheduling_is_left_to_vllm_where_our_drafts_can_follow_it(
    vllm: dict[str, JsonValue], is_v2: bool, expected: bool | None
) -> None:
    options = build_options(settings(vllm=vllm), MODEL, has_bfloat16=True, is_v2=is_v2)

    assert options.get("async_scheduling") is expected


@pytest.mark.parametrize(
    ("url", "words"),
    [("nope://a", "Protocol not known: nope"), ("s3://a", "Install s3fs")],
    ids=["unknown", "not installed"],
)
def test_a_shared_place_that_cannot_be_reached_is_refused(url: str, words: str) -> None:
    chosen = settings(speculation={"suffix": {"share": url}})

    with pytest.raises(ConfigError, match=rf"speculation\.suffix\.share: {words}"):
        build_options(chosen, MODEL, has_bfloat16=True, is_v2=False)


def test_async_scheduling_with_drafts_needs_v2() -> None:
    chosen = settings(vllm={"async_scheduling": True})

    with pytest.raises(ConfigError, match=r"engine\.vllm\.async_scheduling: .*V2"):
        build_options(chosen, MODEL, has_bfloat16=True, is_v2=False)


NGRAM: dict[str, object] = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}
NATIVE: dict[str, object] = {"sources": ["native"], "native": {"config": NGRAM}}


@pytest.mark.parametrize(
    ("speculation", "longest"),
    [(NATIVE, 4), ({**NATIVE, "sources": ["suffix", "native"], "max_draft_tokens": 7}, 7)],
    ids=["alone", "with a source of ours"],
)
def test_a_native_drafter_keeps_its_options(speculation: dict[str, object], longest: int) -> None:
    options = build_options(
        settings(speculation=speculation), MODEL, has_bfloat16=True, is_v2=False
    )

    assert options["speculative_config"] == {**NGRAM, "num_speculative_tokens": longest}


@pytest.mark.parametrize(
    ("speculation", "snapshot", "head"),
    [
        ({"suffix": {"capacity_mb": 7}}, "/cache/suffix/org-model-c87c0c64d2fb215b", None),
        ({"suffix": {"warm_start": False}}, None, None),
        (NATIVE, None, None),
        ({"sources": ["head"], "head": {"path": "/head"}}, None, "/head"),
    ],
    ids=["default", "cold", "no index", "head"],
)
def test_settings_reach_the_model_worker(
    speculation: dict[str, object], snapshot: str | None, head: str | None
) -> None:
    model = ResolvedModel("/models/m", "org/model", is_local=True)
    chosen = settings(cache_dir="/cache", speculation=speculation)

    options = build_options(chosen, model, has_bfloat16=True, is_v2=False)

    assert isinstance(ours := options["additional_config"], dict)
    assert isinstance(found := ours["specgate"], dict)
    assert Speculation.model_validate(found["speculation"]) == chosen.speculation
    assert (found["snapshot"], found["head"]) == (snapshot, head)


def test_speculation_refuses_pipeline_stages() -> None:
    stages: dict[str, JsonValue] = {"pipeline_parallel_size": 2}

    with pytest.raises(ConfigError) as refused:
        build_options(settings(vllm=stages), MODEL, has_bfloat16=True, is_v2=False)
    off = build_options(
        settings(vllm=stages, speculation={"sources": "off"}),
        MODEL,
        has_bfloat16=True,
        is_v2=False,
    )

    (problem,) = refused.value.problems
    assert problem.startswith("engine.vllm.pipeline_parallel_size: speculation does not support")
    assert off["pipeline_parallel_size"] == 2


EAGLE: dict[str, object] = {"method": "eagle", "model": "e", "num_speculative_tokens": 4}
MIXTURE: dict[str, JsonValue] = {"num_local_experts": 8}


@pytest.mark.parametrize(
    ("engines", "drafter", "model", "refused"),
    [
        (2, EAGLE, MIXTURE, True),
        ("2", EAGLE, {"text_config": {"n_routed_experts": 64}}, True),
        (1, EAGLE, MIXTURE, False),
        (2, NGRAM, MIXTURE, False),
        (2, EAGLE, {"num_experts": 0}, False),
        (2, EAGLE, None, False),
    ],
    ids=["experts", "experts of text", "one engine", "no cache", "dense", "unknown"],
)
def test_engines_with_experts_refuse_a_native_drafter(
    engines: JsonValue,
    drafter: dict[str, object],
    model: dict[str, JsonValue] | None,
    refused: bool,
) -> None:
    chosen = settings(
        vllm={"data_parallel_size": engines},
        speculation={"sources": ["native"], "native": {"config": drafter}},
    )

    assert find_parallel_problems(chosen, model) == ([NATIVE_IN_STEP] if refused else [])


def snapshot_of(served_name: str) -> Path:
    model = ResolvedModel("/models/m", served_name, is_local=True)
    ours = build_options(settings(cache_dir="/cache"), model, has_bfloat16=True, is_v2=False)[
        "additional_config"
    ]
    assert isinstance(ours, dict)
    found = ours["specgate"]
    assert isinstance(found, dict)
    return Path(str(found["snapshot"]))


def test_every_served_name_has_a_snapshot_of_its_own() -> None:
    names = [
        "a/b",
        "a-b",
        "a b",
        "A-b",
        "x" * 1000,
        "x" * 1001,
        "../../etc",
        "模型",
        "模型型",
        "..",
    ]

    paths = [snapshot_of(name) for name in names]

    assert {path.parent for path in paths} == {Path("/cache/suffix")}
    assert len({path.name.lower() for path in paths}) == len(names)
    assert max(len(path.name) for path in paths) < 200


@pytest.mark.parametrize(
    ("window", "launch", "vllm", "is_v2", "is_refused"),
    [
        (64, "ahead", {}, True, True),
        (64, "auto", {}, True, False),
        (0, "ahead", {}, True, False),
        (64, "ahead", {}, False, False),
        (64, "ahead", {"async_scheduling": False}, True, False),
    ],
    ids=["refused", "auto", "without window", "V1", "synchronous"],
)
def test_a_head_that_looks_back_is_refused_where_every_step_is_launched_ahead(
    tmp_path: Path,
    window: int,
    launch: str,
    vllm: dict[str, object],
    is_v2: bool,
    is_refused: bool,
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"window": window}), encoding="utf-8")
    speculation = {"sources": ["head"], "head": {"path": str(tmp_path)}, "launch": launch}
    chosen = settings(speculation=speculation, vllm=vllm)
    outcome: Any = nullcontext()
    if is_refused:
        outcome = pytest.raises(ConfigError, match="launch: ahead, but a head that looks back")

    with outcome:
        build_options(chosen, MODEL, has_bfloat16=True, is_v2=is_v2)


def test_a_model_without_a_shipped_head_needs_a_folder() -> None:
    chosen = settings(model="org/model", speculation={"sources": ["head"]})

    with pytest.raises(ConfigError, match="no head ships for org/model"):
        build_options(chosen, MODEL, has_bfloat16=True, is_v2=False)


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
def test_values_become_arguments(value: JsonValue, expected: list[str]) -> None:
    assert to_arguments({"an_option": value}) == expected
