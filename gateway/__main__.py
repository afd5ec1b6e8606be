"""One gateway process: load the settings, configure logging, and serve the app.

`specgate serve` starts the gateway; for several processes it runs this module in each of them.
"""

import argparse
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from gateway.app import create_app
from gateway.assembly import Lifecycle, ProcessContext
from gateway.errors import ConfigError
from gateway.server import ParentWatch, bind, serve
from gateway.settings import load_settings, process_position
from gateway.telemetry import configure_logging


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal; returns the exit status: 2 when the settings are wrong."""
    parser = argparse.ArgumentParser(prog="python -m gateway")
    parser.add_argument("--config", type=Path, help="profile (YAML)")
    parser.add_argument("--fd", type=int, help="listening socket, from the parent process")
    parser.add_argument("--socket-dir", type=Path, help="folder of the worker's socket")
    chosen = parser.parse_args(arguments)
    index, ledger = process_position()
    lifecycle = Lifecycle()
    process = ProcessContext(index, ledger, chosen.socket_dir, chosen.config)
    try:
        settings = load_settings(chosen.config)
        configure_logging(log_format=settings.log.format, level=settings.log.level)
        app = create_app(settings, process=process, lifecycle=lifecycle)
        own = bind(settings.host, settings.port) if chosen.fd is None else None
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2

    async def run() -> int:
        if own is not None:
            return await serve(app, own, lifecycle, settings.drain)
        parent = ParentWatch(lifecycle)
        lifecycle.others_gone = parent.gone
        sock = socket.socket(fileno=chosen.fd)
        return await serve(app, sock, lifecycle, settings.drain)

    return uvloop.run(run())


if __name__ == "__main__":
    sys.exit(main())
