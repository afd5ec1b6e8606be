"""vLLM's argument parser, changed to raise our error instead of exiting."""

from argparse import Namespace
from collections.abc import Sequence
from typing import NoReturn

from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser

from engine.errors import ConfigError


class _Parser(FlexibleArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError([f"engine.vllm: {message}"])


def parse_arguments(arguments: Sequence[str]) -> Namespace:
    """Parse the arguments of vLLM's server.

    Raises:
        ConfigError: vLLM does not know an option, or rejects its value.
    """
    parser = make_arg_parser(_Parser(prog="engine", allow_abbrev=False))
    parsed: Namespace = parser.parse_args(list(arguments))
    try:
        validate_parsed_serve_args(parsed)
    except (TypeError, ValueError) as exc:
        raise ConfigError([f"engine.vllm: {exc}"]) from exc
    return parsed
