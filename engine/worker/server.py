"""vLLM's server start without the SIGTERM handler that it installs while loading the model.

The handler is meant to interrupt the start. With 0.32.0 it does not while the server waits for its
engine core: in four tries of five the signal had no effect and the worker went on to serve. Here
the caller decides what signals do until then. Remove this file once
`vllm.entrypoints.launchers.api_server.entry.run_server` can be stopped at any moment.
"""

from argparse import Namespace

from vllm.entrypoints.launchers.api_server.entry import run_server_worker
from vllm.entrypoints.launchers.launcher import setup_server
from vllm.utils.system_utils import decorate_logs


async def run_server(parsed: Namespace) -> None:
    """Bind the socket, load the model, and serve until SIGINT or SIGTERM."""
    decorate_logs("APIServer", skip_if_decorated=True)
    address, listener = setup_server(parsed, reuse_port=False)
    await run_server_worker(address, listener, parsed)
