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
    """Fetch the model; prints its folder."""
    return fetch_model(find_profile(chosen.config), show_path=True)


def fetch_model(profile: Path, *, show_path: bool) -> int:
    """Fetch the model in an engine process, with progress on stderr; returns the exit status.

    Args:
        profile: Names the model.
        show_path: Print the model's folder.
    """
    return subprocess.run(  # noqa: S603  # our own interpreter and module
        [sys.executable, "-m", "engine.models", "--config", str(profile)],
        stdout=None if show_path else subprocess.DEVNULL,
        check=False,
    ).returncode
