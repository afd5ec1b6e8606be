"""`python -m engine.tuning MODEL --data FILE`: finds the drafters that are best for a workload.

Exit status: 0 when a report was written, 1 when a worker failed or too little could be measured, 2
when an argument is wrong, 128 plus the signal's number after a signal.
"""

import argparse
import asyncio
import math
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from engine.config import load_settings
from engine.errors import ConfigError, EngineError, ModelError, TrainingError
from engine.models import CATALOGUE, fetch_with_pip, resolve_model
from engine.processor import describe_processor
from engine.training import ChatTemplate, interrupt_on_terminate
from engine.tuning.findings import About
from engine.tuning.page import page_of
from engine.tuning.profile import profile_of
from engine.tuning.run import Job, Tuning
from engine.tuning.state import State, folder_is_ours, write_text
from engine.tuning.variants import find_variants, pick
from engine.tuning.workload import read_workload

_SIGNALLED = 128
_MOST_PROMPT_TOKENS = 2_048
_MOST_CLIENTS = 256
_LEAST_MINUTES = 0.5


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = _parse(argv)
    came = interrupt_on_terminate()
    try:
        job, state, about = _prepare(arguments)
        tuning = Tuning(job, state, _say)
        status, failure = 0, None
        try:
            asyncio.run(tuning.carry_out())
        except KeyboardInterrupt:
            status = _SIGNALLED + (came[0] if came else signal.SIGINT)
            _say("stopped; run the same command again to go on")
        except TrainingError as exc:
            status, failure = 1, exc
        tuning.note_time()
        if failure is not None:
            _say(str(failure))
        found = tuning.findings()
        if found is None:
            _say("too little was measured for a report; give it more --minutes")
            return status or 1
        profile = profile_of(job.settings, job.variants, found, about)
        write_text(state.folder / "profile.yaml", profile)
        write_text(state.folder / "report.html", page_of(found, about, tuning.failed))
        _say(f"{found.chosen}: see {state.folder}/profile.yaml and {state.folder}/report.html")
    except ConfigError as exc:
        for problem in exc.problems:
            _say(problem)
        return 2
    except (EngineError, OSError) as exc:
        _say(str(exc))
        return 1
    return status


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m engine.tuning",
        description="Find the best drafters. Run the same command again to go on.",
    )
    parser.add_argument("model", metavar="MODEL", help="as in the setting engine.model")
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--data", type=Path, metavar="FILE", help="conversations or prompts, .jsonl")
    data.add_argument("--traffic", type=Path, metavar="LOG", help="request bodies, .jsonl")
    parser.add_argument("--concurrency", default="1,8,64", help="clients (default: 1,8,64)")
    parser.add_argument("--minutes", default="10", help="in all (default: 10)")
    parser.add_argument("--drafters", default="", help="compare these only (off,suffix,...)")
    parser.add_argument("--confirm", default="3", help="how many of the best (default: 3)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the profile to start from")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="(default: tune-MODEL)")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    return parser.parse_args(argv)


def _prepare(arguments: argparse.Namespace) -> tuple[Job, State, About]:
    """Check everything before anything is written.

    Raises:
        ConfigError: An argument is wrong.
        ModelError: A model of the catalogue cannot be fetched.
    """
    clients = _clients(arguments.concurrency)
    minutes = _minutes(arguments.minutes)
    if not arguments.confirm.isdecimal() or int(arguments.confirm) < 2:
        raise ConfigError([f"--confirm: {arguments.confirm}: a number from 2 on"])
    path: Path = arguments.data or arguments.traffic
    if not path.is_file():
        raise ConfigError([f"{path}: no such file"])
    out: Path = arguments.out or Path(f"tune-{Path(arguments.model).name}")
    if out.exists() and not folder_is_ours(out):
        raise ConfigError([f"{out}: exists and holds no tuning; use another --out"])
    settings = load_settings(arguments.config, overrides={"model": arguments.model})
    try:
        model = resolve_model(settings, fetch=fetch_with_pip, report=_say)
    except ModelError as exc:
        if settings.model in CATALOGUE:
            raise
        raise ConfigError([str(exc)]) from exc
    try:
        template = ChatTemplate(model.source)
    except TrainingError as exc:
        raise ConfigError([str(exc).splitlines()[0]]) from exc
    longest = int(str(settings.vllm.get("max_model_len") or _MOST_PROMPT_TOKENS))
    workload = read_workload(path, template, most_tokens=min(longest, _MOST_PROMPT_TOKENS))
    for reason, count in workload.dropped.most_common():
        _say(f"data: {count} left out: {reason}")
    names = [name for name in arguments.drafters.split(",") if name]
    folder = Path(model.source) if model.is_local else None
    variants = pick(find_variants(settings, folder), names)
    processor = describe_processor()
    key = {
        "model": settings.model,
        "data": workload.digest,
        "profile": settings.model_dump_json(exclude_unset=True),
        "processor": processor,
    }
    state = State(out, key, fresh=arguments.fresh)
    about = About(
        model=settings.model,
        workload=workload.name,
        prompts=len(workload.prompts),
        processor=processor,
        date=time.strftime("%Y-%m-%d"),
        profile=arguments.config,
    )
    job = Job(
        settings=settings,
        served=model.served_name,
        workload=workload,
        variants=variants,
        concurrency=clients,
        minutes=minutes,
        finalists=int(arguments.confirm),
    )
    return job, state, about


def _clients(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise ConfigError([f"--concurrency: {text}: numbers separated by commas, such as 1,8,64"])
    found = sorted({int(part) for part in parts})
    if found[0] < 1 or found[-1] > _MOST_CLIENTS:
        raise ConfigError([f"--concurrency: {text}: 1 to {_MOST_CLIENTS} clients"])
    return found


def _minutes(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not (math.isfinite(found) and found >= _LEAST_MINUTES):
        raise ConfigError(
            [f"--minutes: {text}: at least {_LEAST_MINUTES}; nothing can be measured in less"]
        )
    return found


def _say(line: str) -> None:
    sys.stderr.write(f"tune: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
