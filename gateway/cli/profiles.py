"""Find profiles and recipes: by path, or by the name of one from the package."""

import argparse
from pathlib import Path

import yaml

import gateway
from gateway.errors import ConfigError

DEFAULT = "cpu-smollm2"


def add_config_argument(parser: argparse.ArgumentParser) -> None:
    """Give a command its `--config`."""
    parser.add_argument(
        "--config",
        default=DEFAULT,
        metavar="FILE",
        help=f"profile: a YAML file, or the name of one from the package (default: {DEFAULT})",
    )


def find_profile(name: str) -> Path:
    """The file of a profile.

    Raises:
        ConfigError: There is none.
    """
    return find_file(name, "configs", kind="profile")


def find_file(name: str, folder: str, *, kind: str) -> Path:
    """Find a file by its path, or a packaged one by its name.

    Args:
        name: Path, or name without `.yaml`.
        folder: Folder of the packaged files.
        kind: What the file is, for the error message.

    Raises:
        ConfigError: There is none.
    """
    path = Path(name)
    if path.is_file():
        return path.resolve()
    folders = _packaged(folder)
    for parent in folders:
        if (found := parent / f"{name}.yaml").is_file():
            return found
    known = sorted(found.stem for parent in folders for found in parent.glob("*.yaml"))
    raise ConfigError(f"{name}: no such {kind}; there are {', '.join(known)}")


def profile_of_model(model: str) -> Path | None:
    """The packaged profile that serves a model; None if there is none."""
    for parent in _packaged("configs"):
        for path in sorted(parent.glob("*.yaml")):
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
            if (document.get("engine") or {}).get("model") == model:
                return path
    return None


def _packaged(folder: str) -> tuple[Path, Path]:
    """In an installation files are inside the package, in a checkout next to it."""
    package = Path(gateway.__file__).parent
    return package / folder, package.parent / folder
