"""Schemas of tools at vLLM's strict levels, with its own parsers."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import xgrammar
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.tool_parsers import ToolParser, ToolParserManager
from vllm.tool_parsers.tool_strict_level import ToolStrictLevel

from engine.worker.tools import accept_all_schemas

GRAMMATICAL = {"type": "integer"}
BEYOND_GRAMMAR = {"type": "string", "pattern": r"\bword\b"}


@pytest.fixture(autouse=True)
def mended() -> Iterator[None]:
    original = ToolParser.get_structural_tag
    accept_all_schemas()
    yield
    ToolParser.get_structural_tag = original


def tag_of(schema: dict[str, Any], *, parser: str = "hermes", **function: Any) -> str:
    """The grammar that vLLM builds for a required call of one tool, as JSON."""
    request = ChatCompletionRequest.model_validate(
        {
            "messages": [{"role": "user", "content": "?"}],
            "tool_choice": "required",
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "look",
                        "parameters": {"type": "object", "properties": {"it": schema}},
                        **function,
                    },
                }
            ],
        }
    )
    cls = ToolParserManager.get_tool_parser(parser)
    tag = cls.get_structural_tag(cls.__new__(cls), request, strict_level=ToolStrictLevel.PARAMETER)
    return json.dumps(tag.model_dump())


def test_arguments_are_held_to_their_schema() -> None:
    assert '"integer"' in tag_of(GRAMMATICAL)


def test_a_schema_beyond_the_grammar_leaves_arguments_free() -> None:
    tag = tag_of(BEYOND_GRAMMAR)

    xgrammar.Grammar.from_structural_tag(tag)
    assert "look" in tag
    assert "word" not in tag


def test_a_strict_tool_beyond_the_grammar_is_left_to_vllm() -> None:
    with pytest.raises(RuntimeError, match=r"pattern|regex"):
        xgrammar.Grammar.from_structural_tag(tag_of(BEYOND_GRAMMAR, strict=True))


def test_a_second_call_changes_nothing() -> None:
    once = ToolParser.get_structural_tag

    accept_all_schemas()

    assert ToolParser.get_structural_tag is once


@pytest.mark.parametrize("parser", ["hermes", "llama3_json", "qwen3_coder", "glm47", "openai"])
@pytest.mark.parametrize("schema", [GRAMMATICAL, BEYOND_GRAMMAR], ids=["plain", "beyond"])
def test_the_grammar_of_every_usual_parser_compiles(parser: str, schema: dict[str, Any]) -> None:
    xgrammar.Grammar.from_structural_tag(tag_of(schema, parser=parser))
