"""`python -m engine.training.adapt FOLDER`: trains on what a worker records there, until stopped.

The worker starts it (`engine.worker.adaptation`). It has the lowest priority, one thread and half
of a core, and may be killed at any time.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from engine.errors import EngineError
from engine.lifetime import die_with_parent, exit_on_terminate
from engine.traffic import AdaptFolder, Seal
from engine.training.adapt.course import Adapter
from engine.training.progress import report

_LOOK_SECONDS = 2.0


class Rest:
    """Sleeps for as long as the process has computed since the last time.

    Even on a core of its own a trainer takes memory bandwidth and cache from the worker.
    """

    def __init__(self) -> None:
        self._computed = time.process_time()

    def __call__(self) -> None:
        """Sleep."""
        time.sleep(max(0.0, time.process_time() - self._computed))
        self._computed = time.process_time()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parent = os.getppid()
    arguments = _parse(argv)
    if arguments.die_with_parent:
        die_with_parent(parent)
    exit_on_terminate()
    os.nice(19)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    torch.set_num_threads(1)
    folder = AdaptFolder(arguments.folder)
    try:
        seal = Seal.from_file(arguments.key_file)
        adapter = Adapter(folder, seal, every_tokens=arguments.every_tokens, rest=Rest())
        while True:
            if (outcome := adapter.look()) is not None:
                report(f"{folder.root.name}: {outcome}: {folder.read_status()['last']}")
            time.sleep(_LOOK_SECONDS)
    except (EngineError, OSError) as exc:
        report(str(exc))
        return 1


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m engine.training.adapt",
        description="Fine-tune the serving head on recorded traffic.",
    )
    parser.add_argument("folder", type=Path, help="engine.speculation.head.adapt.folder")
    parser.add_argument("--every-tokens", type=int, default=20_000, help="from one to the next")
    parser.add_argument("--key-file", type=Path, help="key of the recorded traffic")
    parser.add_argument("--die-with-parent", action="store_true", help="end when the parent does")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
