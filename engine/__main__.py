"""`python -m engine --config FILE`: runs one vLLM worker until SIGTERM.

Exit status: 0 after a requested stop, 1 when the worker or its model failed, 2 when a setting is
invalid.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from engine.config import load_settings
from engine.errors import ConfigError, EngineError
from engine.lifetime import die_with_parent, exit_on_terminate
from engine.models import fetch_with_pip, resolve_model
from engine.worker import check_profile, check_version, find_version, serve


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parent_pid = os.getppid()
    arguments = _parse(argv)
    if arguments.die_with_parent is not None:
        die_with_parent(arguments.die_with_parent or parent_pid)
    exit_on_terminate()
    try:
        if arguments.check_config:
            return _check(arguments.config)
        settings = load_settings(arguments.config, overrides=_address(arguments))
        if arguments.print_config:
            sys.stdout.write(settings.model_dump_json(indent=2) + "\n")
            return 0
        check_version(find_version())
        serve(settings, resolve_model(settings, fetch=fetch_with_pip, report=_report))
    except ConfigError as exc:
        for problem in exc.problems:
            _report(problem)
        return 2
    except EngineError as exc:
        _report(str(exc))
        return 1
    except KeyboardInterrupt:  # vLLM raises it for a signal that arrives during start-up
        return 0
    return 0


def _check(profile: Path | None) -> int:
    found = check_profile(profile)
    for line in (*found.problems, *found.notes):
        _report(line)
    if found.problems:
        return 2
    sys.stdout.write(found.settings.model_dump_json(indent=2) + "\n")
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m engine", description="Run one vLLM worker.")
    parser.add_argument("--config", type=Path, help="profile with an engine: section")
    parser.add_argument("--uds", help="listen on this Unix socket")
    parser.add_argument("--host", help="listen on this address")
    parser.add_argument("--port", type=int, help="listen on this TCP port")
    parser.add_argument(
        "--print-config", action="store_true", help="print the merged settings as JSON and exit"
    )
    parser.add_argument(
        "--check-config",
        action="store_true",
        help="check the settings without starting vLLM, print them as JSON and exit",
    )
    parser.add_argument(
        "--die-with-parent",
        type=int,
        nargs="?",
        const=0,
        metavar="PID",
        help="stop when the parent process ends; PID is the parent's (default: detected)",
    )
    arguments = parser.parse_args(argv)
    if arguments.uds is not None and (arguments.host or arguments.port):
        parser.error("--uds cannot be combined with --host or --port")
    return arguments


def _address(arguments: argparse.Namespace) -> dict[str, JsonValue]:
    """Return the settings for the listening address given on the command line."""
    if arguments.uds is not None:
        return {"uds": arguments.uds}
    chosen = {"host": arguments.host, "port": arguments.port}
    given: dict[str, JsonValue] = {name: value for name, value in chosen.items() if value}
    return {"uds": None, **given} if given else {}


def _report(line: str) -> None:
    sys.stderr.write(f"engine: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
