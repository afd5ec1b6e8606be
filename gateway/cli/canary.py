"""`specgate canary status|open`: the defects that a gateway's canary found, and what it shut."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

import httpx

from gateway.cli.connection import AnswerError, add_connection_arguments, connect, member_of

_SECONDS = 30.0

Found = Mapping[str, Mapping[str, Mapping[str, Any]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    status = actions.add_parser("status", help="show the defects by model and source")
    reopen = actions.add_parser("open", help="forget the defects, and let all sources draft again")
    reopen.add_argument("--model", metavar="NAME", help="only those of this model")
    for action in (status, reopen):
        add_connection_arguments(action, key="an administrator's key")


def run(chosen: argparse.Namespace) -> int:
    """Run the action; status 1 if the gateway refuses, or cannot be reached."""
    with connect(chosen, timeout_seconds=_SECONDS) as client:
        try:
            if chosen.action == "status":
                answer = client.get("/speculation")
            else:
                params = {} if chosen.model is None else {"model": chosen.model}
                answer = client.post("/canary/open", params=params)
            sys.stdout.write(_table(member_of(answer, "canary")))
        except (AnswerError, httpx.HTTPError) as error:
            sys.stderr.write(f"{str(client.base_url).rstrip('/')}: {error}\n")
            return 1
    return 0


def _table(found: Found) -> str:
    if not found:
        return "no defects\n"
    rows = [("MODEL", "SOURCE", "DEFECTS", "STATE")] + [
        (model, source, str(one["defects"]), "shut" if one["shut"] else "open")
        for model, sources in found.items()
        for source, one in sources.items()
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "".join(f"{line}\n" for line in lines)
