"""`specgate model`: fetch and convert the model, so that a later start needs no network."""

import argparse
import subprocess
import sys
from pathlib import Path

from gateway.cli.profiles import add_config_argument, find_profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_config_argument(parser)


def run(chosen: argparse.Namespace) -> int:
    """Fetch it; prints where it lies."""
    return fetch_model(find_profile(chosen.config))


def fetch_model(profile: Path) -> int:
    """Run the engine's own fetching, its progress on our terminal; returns its exit status."""
    arguments = [sys.executable, "-m", "engine.models", "--config", str(profile)]
    return subprocess.run(arguments, check=False).returncode  # noqa: S603  # our own module
