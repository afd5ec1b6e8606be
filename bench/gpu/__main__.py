"""`make gpu-check`: runs the parts that are not done yet, and prints a table and a JSON line.

    python -m bench.gpu [--config FILE] [--model FOLDER] [--eagle FOLDER] [--results FOLDER]
        [--parts tests,vllm,ngram,suffix,eagle,hybrid,ahead] [--clients 1,8,64] [--seconds 600]
        [--again]

Nothing is downloaded if the model is a folder. Progress and the table go to stderr, the line to
stdout: `parts` (done, skipped, failed or left out, with the reason), and for each method
`tokens_per_second` by clients, `over_vllm`, `identity`, `dispatch`, `syncs`, `start_seconds`.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.command import client_counts, print_line
from bench.gpu.parts import (
    TESTS,
    VLLM,
    RunError,
    SkipError,
    identity_of,
    methods_of,
    read_prompts,
    run_method,
    run_tests,
)
from bench.gpu.server import ServerError
from bench.rounds import Json
from engine.config import EngineSettings, load_settings
from engine.errors import EngineError
from loadtest.processes import StartError
from loadtest.progress import say

_ROOT = Path(__file__).parents[2]
_FAILURES = (RunError, ServerError, StartError, TimeoutError)
Part = Callable[[], Awaitable[Json]]


class Results:
    """Finished parts, a file each.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def load(self, name: str) -> Json | None:
        """Return a part's result; None if it is not done."""
        path = self.folder / f"{name}.json"
        found: Json | None = json.loads(path.read_text("utf-8")) if path.is_file() else None
        return found

    def save(self, name: str, found: Mapping[str, Any]) -> None:
        """Keep a part's result."""
        beside = self.folder / f"{name}.new"
        beside.write_text(json.dumps(found), encoding="utf-8")
        beside.replace(self.folder / f"{name}.json")

    def forget(self) -> None:
        """Remove all results."""
        for path in self.folder.glob("*.json"):
            path.unlink()


async def run(parts: Mapping[str, Part], results: Results, *, seconds: float) -> dict[str, str]:
    """Run the parts that are not done.

    Args:
        parts: By name, in their order.
        results: Where results are kept.
        seconds: No part goes on after that.

    Returns:
        What became of each part.
    """
    ends_at = time.monotonic() + seconds
    became: dict[str, str] = {}
    for name, part in parts.items():
        if results.load(name) is not None:
            became[name] = "done before"
            continue
        left = ends_at - time.monotonic()
        if left <= 0:
            became[name] = "left out: no time left"
            continue
        say(f"{name} ...")
        try:
            async with asyncio.timeout(left):
                results.save(name, await part())
            became[name] = "done"
        except SkipError as reason:
            became[name] = f"skipped: {reason}"
        except _FAILURES as error:
            became[name] = f"failed: {str(error) or type(error).__name__}"
        say(f"{name}: {became[name]}")
    return became


def report(names: Sequence[str], results: Results, became: Mapping[str, str]) -> Json:
    """Return the JSON line."""
    plain = results.load(VLLM)
    methods: Json = {}
    for name in names:
        found = results.load(name)
        if found is None or "texts" not in found:
            continue
        line = {key: value for key, value in found.items() if key not in ("texts", "gaps")}
        if plain is not None:
            line["identity"] = identity_of(plain, found)
            base = plain["tokens_per_second"]
            speeds = found["tokens_per_second"]
            line["over_vllm"] = {clients: speeds[clients] / base[clients] for clients in speeds}
        methods[name] = line
    return {"parts": dict(became), "tests": results.load(TESTS), "methods": methods}


def table_of(found: Mapping[str, Any]) -> str:
    """Return the table that a person reads."""
    rows = ["method     tokens/s by clients          over vLLM         identity        FULL  syncs"]
    for name, line in found["methods"].items():
        speeds = "/".join(f"{speed:.0f}" for speed in line["tokens_per_second"].values())
        ratios = "/".join(f"{ratio:.2f}" for ratio in line.get("over_vllm", {}).values())
        same = line.get("identity", {})
        identity = f"{same['equal']}+{same['near_ties']}-{same['defects']}" if same else "-"
        full = line["dispatch"].get("share", {}).get("full", 0.0)
        syncs = line["syncs"]["a_step"]
        rows.append(f"{name:10} {speeds:27} {ratios:17} {identity:15} {full:4.0%}  {syncs:5.1f}")
    rows += [f"{name}: {what}" for name, what in found["parts"].items()]
    return "\n".join([*rows, "identity: equal + apart at near-ties - defects, of vLLM's texts"])


def main() -> int:
    """Run the check; the exit status is 1 if a part failed or a text is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu")
    parser.add_argument("--config", type=Path, default=_ROOT / "configs/gpu-llama-3.1-8b.yaml")
    parser.add_argument("--model", help="a folder, or another name than the profile's")
    parser.add_argument("--eagle", type=Path, help="folder of an EAGLE-3 head for the model")
    parser.add_argument("--results", type=Path, default=_ROOT / ".bench/gpu-check")
    parser.add_argument("--parts", help="only these, with commas")
    parser.add_argument("--clients", type=client_counts, default=[1, 8, 64], help="1,8,64")
    parser.add_argument("--seconds", type=float, default=600.0, help="time limit of the call")
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    arguments = parser.parse_args()
    found: Json = {}

    def measure() -> Json:
        found.update(_check(arguments))
        return found

    status = print_line(measure, (EngineError, OSError))
    wrong = any(
        line.get("identity", {}).get("defects") for line in found.get("methods", {}).values()
    )
    failed = any(what.startswith("failed") for what in found.get("parts", {}).values())
    return status or int(wrong or failed)


def _check(arguments: argparse.Namespace) -> Json:
    overrides = {"model": arguments.model} if arguments.model else {}
    settings = load_settings(arguments.config, overrides=overrides)
    results = Results(arguments.results.resolve())
    if arguments.again:
        results.forget()
    parts = _parts_of(settings, arguments, results)
    chosen = arguments.parts.split(",") if arguments.parts else list(parts)
    if unknown := set(chosen) - set(parts):
        raise EngineError(f"no such part: {', '.join(unknown)}; there are {', '.join(parts)}")
    wanted = {name: parts[name] for name in parts if name in chosen}
    became = asyncio.run(run(wanted, results, seconds=arguments.seconds))
    found = report(list(parts), results, became)
    sys.stderr.write(table_of(found) + "\n")
    return found


def _parts_of(
    settings: EngineSettings, arguments: argparse.Namespace, results: Results
) -> dict[str, Part]:
    prompts = read_prompts()

    def served(method: Any) -> Part:
        return lambda: run_method(method, settings, prompts, arguments.clients, results.folder)

    methods = methods_of(settings, arguments.eagle)
    return {TESTS: run_tests, **{method.name: served(method) for method in methods}}


if __name__ == "__main__":
    sys.exit(main())
