"""Our options, checked with the parser of the installed vLLM."""

import pytest

from engine.config import RESERVED_VLLM_OPTIONS, EngineSettings
from engine.errors import ConfigError
from engine.models import ResolvedModel
from engine.worker.options import build_options, to_arguments
from engine.worker.server import parse_arguments

MODEL = ResolvedModel("/models/m", "my-model", is_local=True)


@pytest.mark.parametrize(("is_v2", "method"), [(False, "custom_class"), (True, "ngram_gpu")])
def test_vllm_knows_every_option_that_we_set(is_v2: bool, method: str) -> None:
    settings = EngineSettings(vllm={"max_num_seqs": 4, "enable_prefix_caching": False})

    options = build_options(settings, MODEL, has_bfloat16=True, is_v2=is_v2)
    parsed = parse_arguments(to_arguments(options))

    assert parsed.model == "/models/m"
    assert parsed.served_model_name == ["my-model"]
    assert (parsed.host, parsed.port) == ("127.0.0.1", 8001)
    assert (parsed.max_num_seqs, parsed.enable_prefix_caching) == (4, False)
    assert parsed.speculative_config["method"] == method
    assert parsed.per_request_spec_decode_metrics == "detailed"
    assert parsed.enable_prompt_tokens_details is True


def test_every_reserved_option_exists_in_vllm() -> None:
    known = vars(parse_arguments([]))

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
def test_an_option_that_vllm_rejects_becomes_one_line(
    options: dict[str, object], problem: str
) -> None:
    settings = EngineSettings.model_validate({"vllm": options})
    built = build_options(settings, MODEL, has_bfloat16=True, is_v2=False)

    with pytest.raises(ConfigError, match=problem) as caught:
        parse_arguments(to_arguments(built))

    assert caught.value.problems[0].startswith("engine.vllm: ")
