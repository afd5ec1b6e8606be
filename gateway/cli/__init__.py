"""The command `specgate`, with one module per subcommand."""

from gateway.cli.main import main

__all__ = ["main"]
