"""`specgate keys create|list|revoke`: manage the file of hashed keys."""

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from gateway.admission import KeyLimits, add_record, new_key, read_records, remove_record
from gateway.cli.profiles import add_config_argument, find_profile
from gateway.errors import ConfigError
from gateway.settings import load_settings
from gateway.types import PacingMode

_LIMITS = ("requests_per_minute", "tokens_per_minute", "concurrent_requests")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="issue a key and print it, once")
    create.add_argument("--tenant", required=True, help="who the key belongs to")
    create.add_argument("--name", default="", help="a note for people")
    create.add_argument("--model", action="append", metavar="NAME", help="only this (repeatable)")
    create.add_argument("--pacing", choices=get_args(PacingMode), help="of all its streams")
    create.add_argument("--admin", action="store_true", help="may also load draft heads")
    for limit in _LIMITS:
        create.add_argument("--" + limit.replace("_", "-"), type=_count, metavar="N")
    revoke = actions.add_parser("revoke", help="make a key invalid")
    revoke.add_argument("key_id", help="as `specgate keys list` shows it")
    for action in (create, revoke, actions.add_parser("list", help="show the keys' records")):
        action.add_argument("--file", type=Path, help="key file (default: the profile's)")
        add_config_argument(action)


def run(chosen: argparse.Namespace) -> int:
    """Run the action."""
    path: Path | None = chosen.file or load_settings(find_profile(chosen.config)).keys.file
    if path is None:
        raise ConfigError("no key file: give --file, or set gateway.keys.file in the profile")
    return {"create": _create, "list": _list, "revoke": _revoke}[chosen.action](chosen, path)


def _create(chosen: argparse.Namespace, path: Path) -> int:
    text, record = new_key(
        tenant=chosen.tenant,
        name=chosen.name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        limits=KeyLimits(**{limit: getattr(chosen, limit) for limit in _LIMITS}),
        models=None if chosen.model is None else tuple(chosen.model),
        pacing=chosen.pacing,
        admin=chosen.admin,
    )
    add_record(path, record)
    sys.stderr.write("This key is shown once; only its hash is stored.\n")
    sys.stdout.write(text + "\n")
    return 0


def _list(_: argparse.Namespace, path: Path) -> int:
    for record in read_records(path):
        granted = {name: getattr(record.limits, name) for name in _LIMITS}
        granted |= {"models": record.models, "pacing": record.pacing}
        granted["admin"] = record.admin or None
        shown = {
            "id": record.key_id,
            "tenant": record.tenant,
            "name": record.name,
            "created": record.created,
            **{name: value for name, value in granted.items() if value is not None},
        }
        sys.stdout.write(json.dumps(shown, ensure_ascii=False) + "\n")
    return 0


def _revoke(chosen: argparse.Namespace, path: Path) -> int:
    if remove_record(path, chosen.key_id):
        return 0
    sys.stderr.write(f"{path} has no key {chosen.key_id}\n")
    return 1


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
