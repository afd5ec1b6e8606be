"""Where profiles and recipes are: a path that was given, or one that came with the package."""

import argparse
from pathlib import Path

import gateway
from gateway.errors import ConfigError

DEFAULT = "cpu-smollm2"


def add_config_argument(parser: argparse.ArgumentParser) -> None:
    """Give a command its `--config`."""
    parser.add_argument(
        "--config",
        default=DEFAULT,
        metavar="FILE",
        help=f"profile: a YAML file, or the name of one that came along (default: {DEFAULT})",
    )


def find_profile(name: str) -> Path:
    """The file of a profile.

    Raises:
        ConfigError: There is none.
    """
    return find_file(name, "configs", kind="profile")


def find_file(name: str, folder: str, *, kind: str) -> Path:
    """A file that was given by its path, or one that came along by its name.

    Args:
        name: Path, or name without `.yaml`.
        folder: Where those that came along lie.
        kind: What it is, for the error.

    Raises:
        ConfigError: There is none.
    """
    path = Path(name)
    if path.is_file():
        return path.resolve()
    package = Path(gateway.__file__).parent
    # Installed, they lie inside the package; in a checkout beside it.
    folders = (package / folder, package.parent / folder)
    for place in folders:
        if (found := place / f"{name}.yaml").is_file():
            return found
    known = sorted(found.stem for place in folders for found in place.glob("*.yaml"))
    raise ConfigError(f"{name}: no such {kind}; there are {', '.join(known)}")
