r"""Lets the default `tool_strict_level: parameter` leave a request alone that it would reject.

At that level vLLM 0.32 compiles the schema of every tool into the grammar of the answer, and
answers 400 if xgrammar cannot, for example because of `\b` in a pattern. One such tool would then
make every request of an agent fail, even if none asks for `strict`.
"""

import json
from typing import Any

import xgrammar
from vllm.logger import init_logger
from vllm.tool_parsers import ToolParser
from vllm.tool_parsers.tool_strict_level import ToolStrictLevel

_log = init_logger(__name__)


def accept_all_schemas() -> None:
    """Constrain names only, not arguments, where a request's schemas cannot become a grammar.

    A tool that asks for `strict` keeps vLLM's answer, 400. Changes vLLM's server in this process;
    idempotent.
    """
    build = ToolParser.get_structural_tag
    if build.__module__ == __name__:
        return

    def get_structural_tag(
        self: Any,
        request: Any,
        *,
        reasoning: bool = False,
        strict_level: ToolStrictLevel = ToolStrictLevel.AUTO,
    ) -> Any:
        tag = build(self, request, reasoning=reasoning, strict_level=strict_level)
        if strict_level < ToolStrictLevel.PARAMETER or tag is None or _compiles(tag):
            return tag
        _log.warning_once(
            "A tool's schema is beyond xgrammar: arguments in requests with it are unconstrained."
        )
        return build(self, request, reasoning=reasoning, strict_level=ToolStrictLevel.FUNCTION)

    ToolParser.get_structural_tag = get_structural_tag


def _compiles(tag: Any) -> bool:
    # As vLLM checks it itself afterwards; 3 ms for twenty tools.
    try:
        xgrammar.Grammar.from_structural_tag(json.dumps(tag.model_dump()))
    except RuntimeError:
        return False
    return True
