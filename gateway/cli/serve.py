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
from gateway.server import bind, serve
from gateway.settings import GatewaySettings, cache_dir, load_settings
from gateway.telemetry import configure_logging


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_config_argument(parser)


def run(chosen: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    profile = find_profile(chosen.config)
    settings = _with_worker_log(load_settings(profile))
    configure_logging(log_format=settings.log.format, level=settings.log.level)
    if not settings.workers and (status := fetch_model(profile, show_path=False)) != 0:
        return status
    # The path of a Unix socket may have 107 bytes at most, so the cache folder may be too long.
    socket_dir = Path(tempfile.mkdtemp(prefix="specgate-"))
    try:
        if settings.processes > 1:
            return run_processes(settings, profile, socket_dir)
        return uvloop.run(_serve_alone(settings, profile, socket_dir))
    finally:
        shutil.rmtree(socket_dir)


async def _serve_alone(settings: GatewaySettings, profile: Path, socket_dir: Path) -> int:
    sock = bind(settings.host, settings.port)
    lifecycle = Lifecycle(announce=announcer(settings, sock).watch_pool)
    process = ProcessContext(socket_dir=socket_dir, profile=profile)
    app = create_app(settings, process=process, lifecycle=lifecycle)
    return await serve(app, sock, lifecycle, settings.drain)


def _with_worker_log(settings: GatewaySettings) -> GatewaySettings:
    """On a terminal, send the worker's output to a file, so that the gateway's is readable."""
    if settings.supervisor.log_file is not None or not sys.stderr.isatty():
        return settings
    log_file = cache_dir() / "logs" / "worker.log"
    supervisor = settings.supervisor.model_copy(update={"log_file": log_file})
    return settings.model_copy(update={"supervisor": supervisor})
