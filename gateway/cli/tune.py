"""`specgate tune`: find the drafters that are best for a model and a workload."""

import argparse
import os
import sys

from gateway.cli.profiles import find_profile, profile_of_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command; the engine checks the values."""
    parser.add_argument(
        "model", metavar="MODEL", help="a catalogue name, a folder, or a Hugging Face id"
    )
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--data", metavar="FILE", help="conversations or prompts, as JSON Lines")
    data.add_argument("--traffic", metavar="LOG", help="recorded request bodies, as JSON Lines")
    parser.add_argument("--concurrency", metavar="N,N", help="clients (default: 1,8,64)")
    parser.add_argument("--minutes", metavar="M", help="time for all of it (default: 10)")
    parser.add_argument(
        "--drafters", metavar="NAMES", help="compare only these, such as off,suffix,suffix+head"
    )
    parser.add_argument(
        "--confirm", metavar="N", help="how many of the best to confirm (default: 3)"
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="profile to start from (default: the one that ships for the model)",
    )
    parser.add_argument("--out", metavar="FOLDER", help="for the results (default: tune-MODEL)")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")


def run(chosen: argparse.Namespace) -> int:
    """Replace this process with the engine's, so that it gets the signals and sets the status.

    Raises:
        ConfigError: There is no such profile.
    """
    command = [sys.executable, "-m", "engine.tuning", chosen.model]
    for name in ("data", "traffic", "concurrency", "minutes", "drafters", "confirm", "out"):
        value = getattr(chosen, name)
        if value is not None:
            command += [f"--{name}", value]
    named = chosen.config
    profile = profile_of_model(chosen.model) if named is None else find_profile(named)
    if profile is not None:
        command += ["--config", str(profile)]
    if chosen.fresh:
        command.append("--fresh")
    sys.stderr.flush()
    os.execv(sys.executable, command)  # noqa: S606  # our own interpreter and module
