"""vLLM's server as a call of ours: its arguments, and its start.

vLLM's parser ends the process at a wrong option; here it raises our error. vLLM installs a SIGTERM
handler while it loads the model, meant to interrupt the start. With 0.32.0 it does not while the
server waits for its engine core: in four tries of five the signal had no effect and the worker went
on to serve. Here the caller decides what signals do until then. Replace `run_server` with vLLM's
once `vllm.entrypoints.launchers.api_server.entry.run_server` can be stopped at any moment.
"""

from argparse import Namespace
from collections.abc import Sequence
from typing import NoReturn

from vllm.entrypoints.launchers.api_server.entry import run_server_worker
from vllm.entrypoints.launchers.launcher import setup_server
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.utils.system_utils import decorate_logs

from engine.errors import ConfigError
from engine.worker.moved import make_arg_parser, validate_parsed_serve_args


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


async def run_server(parsed: Namespace) -> None:
    """Bind the socket, load the model, and serve until SIGINT or SIGTERM."""
    decorate_logs("APIServer", skip_if_decorated=True)
    address, listener = setup_server(parsed, reuse_port=False)
    await run_server_worker(address, listener, parsed)
