"""The command `specgate`: serve, check-config, keys, model, version; one file for each."""

from gateway.cli.main import main

__all__ = ["main"]
