"""`specgate train`: make a draft head from a recipe; the same command goes on after a stop."""

import argparse
import os
import sys
from pathlib import Path

import gateway
from gateway.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        help="a YAML file, or the name of a recipe that came along",
    )
    parser.add_argument(
        "--until",
        metavar="STEP",
        help="the last step to do: text, hidden, train, evaluate or export (default: all)",
    )


def run(chosen: argparse.Namespace) -> int:
    """Become the engine's own command, so that signals and its exit status are ours.

    Raises:
        ConfigError: There is no such recipe.
    """
    command = [sys.executable, "-m", "engine.training", str(find_recipe(chosen.recipe))]
    if chosen.until is not None:
        command += ["--until", chosen.until]
    sys.stderr.flush()
    os.execv(sys.executable, command)  # noqa: S606  # our own interpreter and module


def find_recipe(name: str) -> Path:
    """The file of a recipe.

    Raises:
        ConfigError: There is none.
    """
    path = Path(name)
    if path.is_file():
        return path.resolve()
    package = Path(gateway.__file__).parent
    # Installed, the recipes lie inside the package; in a checkout beside it.
    folders = [folder / "configs" / "recipes" for folder in (package, package.parent)]
    for folder in folders:
        if (found := folder / f"{name}.yaml").is_file():
            return found
    known = sorted(found.stem for folder in folders for found in folder.glob("*.yaml"))
    raise ConfigError(f"{name}: no such recipe; there are {', '.join(known)}")
