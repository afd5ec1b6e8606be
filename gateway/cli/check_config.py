"""`specgate check-config`: print the settings from environment, profile and defaults, redacted."""

import argparse
import json
import subprocess
import sys

from gateway.cli.profiles import add_config_argument, find_profile
from gateway.settings import load_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_config_argument(parser)


def run(chosen: argparse.Namespace) -> int:
    """Print the merged settings as JSON; status 2 if any are wrong."""
    profile = find_profile(chosen.config)
    settings = load_settings(profile)
    merged = {"gateway": settings.model_dump(mode="json")}
    if not settings.workers:
        # Only the engine can read its section; it runs in a separate process.
        engine = subprocess.run(  # noqa: S603  # our own interpreter and module
            [sys.executable, "-m", "engine", "--config", str(profile), "--print-config"],
            capture_output=True,
            text=True,
            check=False,
        )
        if engine.returncode != 0:
            sys.stderr.write(engine.stderr)
            return engine.returncode
        merged["engine"] = json.loads(engine.stdout)
    sys.stdout.write(json.dumps(merged, indent=2) + "\n")
    return 0
