"""`specgate serve`: fetch the model if needed, start the gateway and its worker."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import uvloop

from gateway.app import create_app
from gateway.assembly import Lifecycle, ProcessContext
from gateway.cli.announce import announcer
from gateway.cli.model import fetch_model
from gateway.cli.processes import run_processes
from gateway.cli.profiles import add_config_argument, find_profile
from gateway.cli.terminal import tell
from gateway.server import bind, serve
from gateway.settings import GatewaySettings, cache_dir, load_settings
from gateway.telemetry import configure_logging

_OPTIONS = ("host", "port")
_FINISH_SECONDS = "10"
"""At a terminal, unless `drain.finish_seconds` is set: a person waits for the prompt."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_config_argument(parser)
    for name in _OPTIONS:
        parser.add_argument(f"--{name}", help=f"overrides gateway.{name} of the profile")


def run(chosen: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    profile = find_profile(chosen.config)
    given = {name: getattr(chosen, name) for name in _OPTIONS}
    overrides = {name: text for name, text in given.items() if text is not None}
    settings = load_settings(profile, overrides=overrides)
    if sys.stderr.isatty():
        overrides |= _at_a_terminal(settings)
        settings = load_settings(profile, overrides=overrides)
    configure_logging(log_format=settings.log.format, level=settings.log.level)
    if not settings.workers and (status := fetch_model(profile, show_path=False)) != 0:
        return status
    # The path of a Unix socket may have 107 bytes at most, so the cache folder may be too long.
    socket_dir = Path(tempfile.mkdtemp(prefix="specgate-"))
    try:
        if settings.processes > 1:
            return run_processes(settings, profile, socket_dir, overrides)
        return uvloop.run(_serve_alone(settings, profile, socket_dir))
    finally:
        shutil.rmtree(socket_dir)


async def _serve_alone(settings: GatewaySettings, profile: Path, socket_dir: Path) -> int:
    sock = bind(settings.host, settings.port)
    lifecycle = Lifecycle(announce=announcer(settings, sock).watch_pool)
    process = ProcessContext(socket_dir=socket_dir, profile=profile)
    app = create_app(settings, process=process, lifecycle=lifecycle)
    return await serve(app, sock, lifecycle, settings.drain, tell)


def _at_a_terminal(settings: GatewaySettings) -> dict[str, str]:
    """Defaults for a person who watches: the worker's output in a file, and a short drain."""
    defaults: dict[str, str] = {}
    if settings.supervisor.log_file is None:
        defaults["supervisor.log_file"] = str(cache_dir() / "logs" / "worker.log")
    if "finish_seconds" not in settings.drain.model_fields_set:
        defaults["drain.finish_seconds"] = _FINISH_SECONDS
    return defaults
