"""Our options against the real parser of the vLLM that is installed."""

import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence

import pytest

from engine.config import RESERVED_VLLM_OPTIONS, EngineSettings
from engine.errors import ConfigError
from engine.models import ResolvedModel
from engine.worker.options import build_options, to_arguments

MODEL = ResolvedModel("/models/m", "my-model", is_local=True)

# Importing vllm takes several seconds.
pytestmark = pytest.mark.timeout(120)

Parse = Callable[[Sequence[str]], Namespace]


@pytest.fixture(scope="module")
def parse() -> Parse:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what vllm and torch do while they are imported is theirs
        from engine.worker.parser import parse_arguments
    return parse_arguments


def test_vllm_understands_every_option_that_we_set(parse: Parse) -> None:
    settings = EngineSettings(vllm={"max_num_seqs": 4, "enable_prefix_caching": False})

    parsed = parse(to_arguments(build_options(settings, MODEL, has_bfloat16=True)))

    assert parsed.model == "/models/m"
    assert parsed.served_model_name == ["my-model"]
    assert (parsed.host, parsed.port) == ("127.0.0.1", 8001)
    assert (parsed.max_num_seqs, parsed.enable_prefix_caching) == (4, False)
    assert parsed.speculative_config["method"] == "custom_class"
    assert parsed.per_request_spec_decode_metrics == "detailed"
    assert parsed.enable_prompt_tokens_details is True


def test_every_reserved_option_exists_in_vllm(parse: Parse) -> None:
    known = vars(parse([]))

    assert known.keys() >= RESERVED_VLLM_OPTIONS


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_num_sequences": 4}, "unrecognized arguments: --max-num-sequences=4"),
        ({"max_num_seq": 4}, "unrecognized arguments: --max-num-seq=4"),
        ({"max_num_seqs": "many"}, "invalid int value: 'many'"),
        ({"enable_auto_tool_choice": True}, "requires --tool-call-parser"),
    ],
    ids=["unknown", "abbreviated", "wrong type", "incomplete"],
)
def test_what_vllm_refuses_becomes_one_line(
    parse: Parse, options: dict[str, object], problem: str
) -> None:
    settings = EngineSettings.model_validate({"vllm": options})

    with pytest.raises(ConfigError, match=problem) as caught:
        parse(to_arguments(build_options(settings, MODEL, has_bfloat16=True)))

    assert caught.value.problems[0].startswith("engine.vllm: ")
