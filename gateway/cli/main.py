"""`specgate COMMAND ...`: parse the command line and run the command."""

import argparse
import sys
from collections.abc import Sequence
from typing import Protocol

from gateway import __version__
from gateway.cli import check_config, keys, model, serve, train
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
    "model": (model, "fetch the profile's model into the cache"),
    "train": (train, "make a draft head from a recipe"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 2 when settings are wrong."""
    parser = argparse.ArgumentParser(
        prog="specgate", description="OpenAI-compatible serving with hybrid speculation on vLLM."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, summary) in _COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    commands.add_parser("version", help="print the version")
    chosen = parser.parse_args(arguments)
    if chosen.command == "version":
        sys.stdout.write(f"specgate {__version__}\n")
        return 0
    try:
        return _COMMANDS[chosen.command][0].run(chosen)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
