"""`specgate check-config`: check a profile and print the settings in force, redacted.

One run shows every mistake, those of the gateway's section and those of the engine's.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from gateway.cli.profiles import add_config_argument, find_profile
from gateway.errors import ConfigError
from gateway.settings import load_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_config_argument(parser)


def run(chosen: argparse.Namespace) -> int:
    """Print the merged settings as JSON; status 2 if any are wrong."""
    profile = find_profile(chosen.config)
    try:
        settings = load_settings(profile)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        _check_engine(profile)
        return 2
    merged = {"gateway": settings.model_dump(mode="json")}
    if not settings.workers:
        status, engine = _check_engine(profile)
        if status != 0:
            return status
        if engine:
            merged["engine"] = json.loads(engine)
    sys.stdout.write(json.dumps(merged, indent=2) + "\n")
    return 0


def _check_engine(profile: Path) -> tuple[int, str]:
    """Let the engine check its section, as only it can; problems go to standard error.

    Returns:
        Its exit status and its settings as JSON; 0 and nothing if it is not installed.
    """
    if importlib.util.find_spec("engine") is None:
        sys.stderr.write("engine: not checked: it is not installed here\n")
        return 0, ""
    checked = subprocess.run(  # noqa: S603  # our own interpreter and module
        [sys.executable, "-m", "engine", "--config", str(profile), "--check-config"],
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stderr.write(checked.stderr)
    return checked.returncode, checked.stdout
