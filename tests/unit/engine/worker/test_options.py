import pytest
from pydantic import JsonValue

from engine.config import EngineSettings
from engine.models import ResolvedModel
from engine.worker.options import build_options, to_arguments

MODEL = ResolvedModel("/models/m", "my-model", is_local=True)


def settings(**values: object) -> EngineSettings:
    return EngineSettings.model_validate(values)


def test_accounting_is_always_on() -> None:
    options = build_options(settings(), MODEL)

    assert options["enable_per_request_metrics"] is True
    assert options["per_request_spec_decode_metrics"] == "detailed"
    assert options["enable_prompt_tokens_details"] is True
    assert options["enable_server_load_tracking"] is True
    assert options["disable_uvicorn_access_log"] is True


def test_model_is_served_under_its_own_name() -> None:
    options = build_options(settings(), MODEL)

    assert (options["model"], options["served_model_name"]) == ("/models/m", "my-model")


def test_a_socket_replaces_host_and_port() -> None:
    over_tcp = build_options(settings(port=9000), MODEL)
    over_socket = build_options(settings(port=9000, uds="w.sock"), MODEL)

    assert (over_tcp["host"], over_tcp["port"]) == ("127.0.0.1", 9000)
    assert over_socket["uds"] == "w.sock"
    assert {"host", "port"}.isdisjoint(over_socket)


def test_speculation_off_asks_for_no_acceptance_either() -> None:
    options = build_options(settings(speculation={"method": "off"}), MODEL)

    assert {"speculative_config", "per_request_spec_decode_metrics"}.isdisjoint(options)


def test_ngram_speculation_is_handed_over_whole() -> None:
    options = build_options(settings(speculation={"num_speculative_tokens": 5}), MODEL)

    assert options["speculative_config"] == {
        "method": "ngram",
        "num_speculative_tokens": 5,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
    }


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
