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
    return fetch_model(find_profile(chosen.config), show_place=True)


def fetch_model(profile: Path, *, show_place: bool) -> int:
    """Run the engine's own fetching, its progress on our stderr; returns its exit status.

    Args:
        profile: Names the model.
        show_place: Print the folder in which it lies.
    """
    return subprocess.run(  # noqa: S603  # our own interpreter and module
        [sys.executable, "-m", "engine.models", "--config", str(profile)],
        stdout=None if show_place else subprocess.DEVNULL,
        check=False,
    ).returncode
