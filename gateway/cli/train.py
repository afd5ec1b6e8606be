"""`specgate train`: train a draft head from a recipe, or continue a training that was stopped."""

import argparse
import os
import sys

from gateway.cli.profiles import find_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        help="a YAML file, or the name of a recipe from the package",
    )
    parser.add_argument(
        "--until",
        metavar="STEP",
        help="the last step to do: text, hidden, train, evaluate or export (default: all)",
    )


def run(chosen: argparse.Namespace) -> int:
    """Replace this process with the engine's, so that it gets the signals and sets the status.

    Raises:
        ConfigError: There is no such recipe.
    """
    recipe = find_file(chosen.recipe, "configs/recipes", kind="recipe")
    command = [sys.executable, "-m", "engine.training", str(recipe)]
    if chosen.until is not None:
        command += ["--until", chosen.until]
    sys.stderr.flush()
    os.execv(sys.executable, command)  # noqa: S606  # our own interpreter and module
