"""`specgate COMMAND ...`: parse the command line and run the command."""

import argparse
import sys
from collections.abc import Sequence
from typing import Protocol

from gateway import __version__
from gateway.cli import canary, check_config, heads, keys, model, serve, top, train, tune, verify
from gateway.errors import ConfigError


class Command(Protocol):
    """A module of this package that defines a subcommand."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Describe the command's own arguments."""

    def run(self, chosen: argparse.Namespace) -> int:
        """Run it; returns the exit status."""


_COMMANDS: dict[str, tuple[Command, str]] = {
    "serve": (serve, "start the gateway and the worker it supervises"),
    "check-config": (check_config, "check a profile and print what is in force"),
    "keys": (keys, "create, list and revoke API keys"),
    "heads": (heads, "load, unload and list draft heads of a running gateway"),
    "canary": (canary, "show defects of speculation, and open what was shut"),
    "top": (top, "watch a running gateway in the terminal"),
    "model": (model, "fetch the profile's model into the cache"),
    "train": (train, "make a draft head from a recipe"),
    "tune": (tune, "find the drafters that are best for a model and a workload"),
    "verify": (verify, "compare a server's answers with and without drafts"),
}

_INTERRUPTED = 130  # as shells report SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 2 when settings are wrong, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="specgate", description="OpenAI-compatible serving with hybrid speculation on vLLM."
    )
    version = f"specgate {__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, summary) in _COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    chosen = parser.parse_args(arguments)
    try:
        return _COMMANDS[chosen.command][0].run(chosen)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED
