"""Where profiles are: a path that was given, or one that came with the package."""

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
    path = Path(name)
    if path.is_file():
        return path.resolve()
    package = Path(gateway.__file__).parent
    # Installed, the profiles lie inside the package; in a checkout beside it.
    folders = (package / "configs", package.parent / "configs")
    for folder in folders:
        if (found := folder / f"{name}.yaml").is_file():
            return found
    known = sorted(found.stem for folder in folders for found in folder.glob("*.yaml"))
    raise ConfigError(f"{name}: no such profile; there are {', '.join(known)}")
