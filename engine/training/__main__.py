"""`python -m engine.training RECIPE`: make a draft head, going on where an earlier run stopped.

Exit status: 0 when all steps are done, 1 when one failed, 2 when the recipe is wrong, 128 and the
number of the signal when it was told to stop. `torchrun` starts one process for each GPU.
"""

import argparse
import importlib.util
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import torch

from engine.config import export_environment, process_environment
from engine.errors import ConfigError, EngineError, TrainingError
from engine.heads import is_head
from engine.training.group import joined_group
from engine.training.progress import report
from engine.training.recipe import load_recipes
from engine.training.steps import STEPS

_EXTRA = ("matplotlib", "tensorboard")
# Without it cuBLAS does not add up in the same order each time; read when CUDA starts.
_REPEATABLE_CUDA = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
_SIGNALLED = 128


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = _parse(argv)
    came = _end_on_terminate()
    try:
        *earlier, recipe = load_recipes(arguments.recipe)
        _check_extra()
        # They need what the extra brings, and seconds to load.
        from engine.training.run import Run

        _make_repeatable()
        with joined_group(process_environment()) as group:
            for first in earlier:
                if not is_head(first.head_folder):
                    report(f"first {first.name}, whose head {recipe.name} starts from")
                    Run(first, group=group).carry_out(STEPS[-1])
            Run(recipe, group=group).carry_out(arguments.until)
    except ConfigError as exc:
        for problem in exc.problems:
            report(problem)
        return 2
    except (EngineError, OSError) as exc:  # a disk that is full or read-only speaks for itself
        report(str(exc))
        return 1
    except KeyboardInterrupt:
        report("stopped; the same command goes on from here")
        return _SIGNALLED + (came[0] if came else signal.SIGINT)
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m engine.training",
        description="Make a draft head; the same command goes on where an earlier run stopped.",
    )
    parser.add_argument("recipe", type=Path, help="a YAML file")
    parser.add_argument(
        "--until", choices=STEPS, default=STEPS[-1], help="the last step to do (default: all)"
    )
    return parser.parse_args(argv)


def _end_on_terminate() -> list[int]:
    """Have SIGTERM end us as Ctrl-C does, which asyncio turns into an orderly end."""
    came: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background jobs
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, interrupt)
    return came


def _check_extra() -> None:
    missing = [name for name in _EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise TrainingError(
            f"training needs {' and '.join(missing)}: install the extra `train` of specgate"
        )


def _make_repeatable() -> None:
    """Have the same weights come out of the same recipe and text, on the same machine."""
    export_environment(_REPEATABLE_CUDA, forced={})
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling what is about to be overwritten costs time and finds nothing here.
    torch.utils.deterministic.fill_uninitialized_memory = False


if __name__ == "__main__":
    sys.exit(main())
