"""`python -m engine --config FILE --uds PATH`: one life of a stand-in worker.

Beside the profile lie two files. `lives` gets a line of process ids for each life; `plan` tells
what each life does, one word a line, the last one for all lives that follow.
"""

import argparse
import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import uvloop

from tests.fakes.worker import FakeWorker

_LIFETIME = Path(__file__).parents[4] / "engine" / "lifetime.py"


def main() -> int:
    """Live as the plan has it; returns the exit status."""
    parent_pid = os.getppid()
    parser = argparse.ArgumentParser(prog="python -m engine")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--uds", type=Path, required=True)
    parser.add_argument("--die-with-parent", nargs="?", const=0, type=int, required=True)
    chosen = parser.parse_args()
    _die_with_parent(parent_pid)
    word = _next_word(chosen.config.parent)
    if word == "refuse":
        sys.stderr.write("engine.speculation: the stand-in was told to refuse\n")
        return 2
    if word == "crash":
        return 1
    if word == "never_ready":
        time.sleep(600)
    uvloop.run(_serve(FakeWorker(uds=chosen.uds), word))
    return 0


def _die_with_parent(parent_pid: int) -> None:
    """Do as the real engine does, with the real engine's code, which we stand in front of."""
    spec = importlib.util.spec_from_file_location("real_engine_lifetime", _LIFETIME)
    assert spec is not None
    assert spec.loader is not None
    lifetime = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lifetime)
    lifetime.die_with_parent(parent_pid)


def _next_word(folder: Path) -> str:
    plan, lives = folder / "plan", folder / "lives"
    words = plan.read_text(encoding="utf-8").split() if plan.exists() else ["serve"]
    lived = len(lives.read_text(encoding="utf-8").splitlines()) if lives.exists() else 0
    word = words[min(lived, len(words) - 1)]
    pids = [os.getpid()]
    if word == "with_child":
        # vLLM's own children do not end by themselves when their parent is killed.
        pids.append(subprocess.Popen(["sleep", "600"]).pid)
    with lives.open("a", encoding="utf-8") as file:
        file.write(" ".join(str(pid) for pid in pids) + "\n")
    return word


async def _serve(worker: FakeWorker, word: str) -> None:
    ended = asyncio.Event()

    def linger() -> None:
        """Stay, be healthy, and fail every request: vLLM whose engine is frozen."""
        worker.state.drop_next_answers = 1_000_000

    on_terminate = {"stubborn": lambda: None, "lingers": linger}.get(word, ended.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, on_terminate)
    async with worker:
        await ended.wait()


if __name__ == "__main__":
    sys.exit(main())
