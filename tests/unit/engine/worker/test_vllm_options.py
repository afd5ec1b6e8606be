"""Our check of options against vLLM's own parser."""

import pytest
from pydantic import JsonValue

from engine.errors import ConfigError
from engine.worker.options import to_arguments
from engine.worker.server import parse_arguments
from engine.worker.versions import TESTED_VLLM_VERSIONS
from engine.worker.vllm_options import find_option_problems, read_vllm_options, suggest

KNOWN = read_vllm_options()


def problems(name: str, value: JsonValue) -> list[str]:
    return list(find_option_problems(KNOWN, {name: value}))


def accepted_by_vllm(name: str, value: JsonValue) -> bool:
    try:
        parse_arguments(to_arguments({name: value}))
    except ConfigError:
        return False
    return True


def test_the_table_is_of_a_tested_version() -> None:
    assert KNOWN.version in TESTED_VLLM_VERSIONS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_num_seqs", 4),
        ("max_num_seqs", "4"),
        ("max_num_seqs", "many"),
        ("max_num_seqs", 4.5),
        ("max_num_seqs", True),
        ("max_num_seqs", None),
        ("max_num_seq", 4),
        ("max_model_len", 8192),
        ("max_model_len", "16k"),
        ("max_model_len", "1.5k"),
        ("max_model_len", "auto"),
        ("max_model_len", "16q"),
        ("gpu_memory_utilization", 0.9),
        ("gpu_memory_utilization", "most"),
        ("enforce_eager", True),
        ("enforce_eager", False),
        ("enforce_eager", "yes"),
        ("no_enforce_eager", True),
        ("no_enforce_eager", 1),
        ("no_max_num_seqs", True),
        ("disable_log_stats", True),
        ("disable_log_stats", False),
        ("dtype", "bfloat16"),
        ("dtype", "bfloat61"),
        ("hf_token", True),
        ("hf_token", "x"),
        ("tokenizer", True),
        ("cudagraph_capture_sizes", [1, 2]),
        ("cudagraph_capture_sizes", [1, "two"]),
        ("cudagraph_capture_sizes", 8),
        ("max_lora_rank", 16),
        ("max_lora_rank", 17),
        ("override_generation_config", {"temperature": 0.2}),
        ("override_generation_config", '{"temperature": 0.2}'),
        ("override_generation_config", "{temperature"),
        ("allowed_origins", '["*"]'),
        ("allowed_origins", ["*"]),
        ("hf_overrides", {"a": 1}),
        ("hf_overrides", "a"),
        ("compilation_config", {"mode": 3}),
        ("compilation_config", {"mood": 3}),
        ("compilation_config", 3),
        ("compilation_config.mode", 3),
        ("moe_backend", "Flashinfer-Cutlass"),
        ("middleware", ["a.b"]),
    ],
    ids=str,
)
def test_an_option_is_refused_when_vllms_parser_refuses_it(name: str, value: JsonValue) -> None:
    assert (not problems(name, value)) == accepted_by_vllm(name, value)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("max_num_seqs", 0, "engine.vllm.max_num_seqs: expected an integer of at least 1, found 0"),
        ("max_num_seqs", "many", 'expected an integer of at least 1, found "many"'),
        ("gpu_memory_utilization", 1.5, "a number of more than 0 and at most 1, found 1.5"),
        ("watermark", 1, "a number of at least 0 and less than 1, found 1"),
        ("max_num_sequences", 4, "vLLM has no such option; did you mean max_num_seqs?"),
        ("zzz", 4, "engine.vllm.zzz: vLLM has no such option"),
        ("dtype", "bfloat61", '"bfloat61" is unknown; did you mean bfloat16?'),
        ("dtype", "x", '"x" is unknown; known: auto, bfloat16, float, float16, float32, half'),
        ("compilation_config", {"mood": 3}, "unknown fields: mood"),
        ("compilation_config", "3", 'expected a mapping, found "3"'),
        ("chat_template", {"a": 1}, 'expected text, found {"a": 1}'),
        ("enforce_eager", 1, "expected true or false, found 1"),
        ("max_num_seqs", [1], "expected an integer of at least 1, found a list"),
    ],
    ids=str,
)
def test_a_problem_says_what_is_expected(name: str, value: JsonValue, problem: str) -> None:
    (found,) = problems(name, value)

    assert found.endswith(problem)


def test_every_problem_is_found() -> None:
    options: dict[str, JsonValue] = {"a": 1, "max_num_seqs": 0, "dtype": "x", "enforce_eager": True}

    assert len(list(find_option_problems(KNOWN, options))) == 3


def test_only_a_near_name_is_suggested() -> None:
    assert suggest("herms", KNOWN.tool_parsers) == "; did you mean hermes?"
    assert suggest("quite something else", KNOWN.tool_parsers) == ""
