"""`specgate heads load|unload|forget|forget-traffic|list`: draft heads of a gateway's workers."""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from gateway.cli.connection import AnswerError, add_connection_arguments, connect, member_of

_SECONDS = 30.0
_POLL_SECONDS = 0.5
_RUNNING = (None, "loading", "trial")
_FAILED = ("error", "failed", "refused")
_COLUMNS = ("worker", "engine", "role", "version", "name", "pairs", "worth")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    load = actions.add_parser("load", help="try a head beside the one that serves")
    load.add_argument("folder", type=Path, help="of the head, on the workers' machines")
    unload = actions.add_parser("unload", help="serve without a head")
    forget = actions.add_parser("forget", help="drop the head beside the one that serves")
    traffic = actions.add_parser(
        "forget-traffic", help="delete what workers recorded of a tenant to learn from"
    )
    whose = traffic.add_mutually_exclusive_group(required=True)
    whose.add_argument("tenant", nargs="?", help="whose traffic")
    whose.add_argument("--all", action="store_true", help="that of all tenants")
    for action in (load, unload, forget, traffic):
        action.add_argument("--wait", action="store_true", help="until the outcome is known")
    for action in (
        load,
        unload,
        forget,
        traffic,
        actions.add_parser("list", help="show all heads"),
    ):
        action.add_argument("--model", metavar="NAME", help="if the workers serve several")
        add_connection_arguments(action, key="an administrator's key")


def run(chosen: argparse.Namespace) -> int:
    """Run the action; status 1 if a worker refuses, or cannot be reached."""
    with connect(chosen, timeout_seconds=_SECONDS) as client:
        try:
            return _list(client, chosen) if chosen.action == "list" else _command(client, chosen)
        except (AnswerError, httpx.HTTPError) as error:
            sys.stderr.write(f"{str(client.base_url).rstrip('/')}: {error}\n")
            return 1


def _list(client: httpx.Client, chosen: argparse.Namespace) -> int:
    workers = _ask(client, chosen)
    rows = list(_rows(workers))
    widths = [max(len(row[at]) for row in (_COLUMNS, *rows)) for at in range(len(_COLUMNS))]
    for row in ([name.upper() for name in _COLUMNS], *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
    return _report_errors(workers)


def _rows(workers: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for worker in workers:
        for engine in worker.get("engines", ()):
            heads = engine["heads"] or {}
            for head in (heads.get("serving"), heads.get("beside")):
                if head is not None:
                    yield _row(worker["worker"], str(engine["engine"]), head)


def _row(worker: str, engine: str, head: Mapping[str, Any]) -> tuple[str, ...]:
    pairs = worth = "-"
    if "pairs" in head:
        pairs, worth = f"{head['pairs']}/{head['most_pairs']}", f"{head['worth']:+.3f}"
    role = head.get("role", "serving")
    return worker, engine, role, head["version"], head["name"], pairs, worth


def _command(client: httpx.Client, chosen: argparse.Namespace) -> int:
    body = {} if chosen.model is None else {"model": chosen.model}
    if chosen.action == "load":
        body["folder"] = str(chosen.folder.absolute())
        sent = client.post("/heads", json=body)
    elif chosen.action == "forget":
        sent = client.post("/heads/forget", json=body)
    elif chosen.action == "forget-traffic":
        whose = {} if chosen.all else {"tenant": chosen.tenant}
        sent = client.delete("/heads/traffic", params=body | whose)
    else:
        sent = client.delete("/heads", params=body)
    answers = _workers(sent)
    ids = {answer["worker"]: answer["id"] for answer in answers if "id" in answer}
    status = _report_errors(answers)
    if not chosen.wait:
        for worker, number in ids.items():
            sys.stdout.write(f"{worker}  command {number} was accepted\n")
        return status
    return max(status, _wait(client, chosen, ids))


def _wait(client: httpx.Client, chosen: argparse.Namespace, ids: Mapping[str, str]) -> int:
    """Print what becomes of the commands at each engine; 1 if one is refused or fails."""
    told: dict[tuple[str, str], str] = {}
    while True:
        workers = _ask(client, chosen)
        found = {
            (worker["worker"], str(engine["engine"])): _find(engine, ids[worker["worker"]])
            for worker in workers
            if worker["worker"] in ids
            for engine in worker.get("engines", ())
        }
        for (worker, number), change in found.items():
            state = change.get("state")
            if state is not None and told.get((worker, number)) != state:
                told[worker, number] = state
                why = f": {change['why']}" if change["why"] else ""
                version = change["version"] or "-"
                sys.stdout.write(f"{worker}  engine {number}  {version}  {state}{why}\n")
                sys.stdout.flush()
        if all(change.get("state") not in _RUNNING for change in found.values()):
            failed = any(change["state"] in _FAILED for change in found.values())
            return int(failed) or _report_errors(workers)
        time.sleep(_POLL_SECONDS)


def _find(engine: Mapping[str, Any], number: str) -> Mapping[str, Any]:
    """Return what an engine says of a command; nothing if it has not read it yet."""
    changes = (engine["heads"] or {}).get("changes", ())
    return next((change for change in changes if change["id"] == number), {})


def _ask(client: httpx.Client, chosen: argparse.Namespace) -> list[dict[str, Any]]:
    params = {} if chosen.model is None else {"model": chosen.model}
    return _workers(client.get("/heads", params=params))


def _workers(answer: httpx.Response) -> list[dict[str, Any]]:
    workers: list[dict[str, Any]] = member_of(answer, "workers")
    return workers


def _report_errors(workers: Sequence[Mapping[str, Any]]) -> int:
    errors = [(worker["worker"], worker["error"]) for worker in workers if "error" in worker]
    for worker, error in errors:
        sys.stderr.write(f"{worker}: {error}\n")
    return int(bool(errors))
