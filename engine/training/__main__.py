"""`python -m engine.training RECIPE`: trains a draft head, resuming an interrupted run.

Exit status: 0 when all steps are done, 1 when one failed, 2 when the recipe is invalid, 128 plus
the signal's number after a signal. `torchrun` starts one process per GPU.
"""

import argparse
import importlib.util
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from engine.config import export_environment, process_environment
from engine.errors import ConfigError, EngineError, TrainingError
from engine.heads import is_head
from engine.training.group import joined_group
from engine.training.interruption import interrupt_on_terminate
from engine.training.native.recipe import NativeRecipe, load_native_recipe
from engine.training.progress import report
from engine.training.recipe import load_recipes
from engine.training.steps import STEPS, Step

_EXTRA = ("matplotlib", "tensorboard")
_NATIVE_EXTRA = ("speculators",)
# cuBLAS needs this for reproducible sums; it is read when CUDA starts.
_REPEATABLE_CUDA = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
_SIGNALLED = 128


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = _parse(argv)
    came = interrupt_on_terminate()
    try:
        native = load_native_recipe(arguments.recipe)
        if native is not None:
            _carry_out_native(native, arguments.until)
            return 0
        *earlier, recipe = load_recipes(arguments.recipe)
        _check_extra(_EXTRA)
        # Imported late: it needs the extra `train` and takes seconds to load.
        from engine.training.run import Run

        _make_repeatable()
        with joined_group(process_environment()) as group:
            for first in earlier:
                if not is_head(first.head_folder):
                    report(f"training {first.name} first; {recipe.name} starts from its head")
                    Run(first, group=group).carry_out(STEPS[-1])
            Run(recipe, group=group).carry_out(arguments.until)
    except ConfigError as exc:
        for problem in exc.problems:
            report(problem)
        return 2
    except (EngineError, OSError) as exc:  # an OSError's message is clear: disk full, read-only
        report(str(exc))
        return 1
    except KeyboardInterrupt:
        report("stopped; run the same command again to resume")
        return _SIGNALLED + (came[0] if came else signal.SIGINT)
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m engine.training",
        description="Train a draft head. Run the same command again to resume.",
    )
    parser.add_argument("recipe", type=Path, help="a YAML file")
    parser.add_argument(
        "--until", choices=STEPS, default=STEPS[-1], help="last step to run (default: all)"
    )
    return parser.parse_args(argv)


def _carry_out_native(recipe: NativeRecipe, until: Step) -> None:
    _check_extra((*_EXTRA, *_NATIVE_EXTRA))
    # Imported late, as above.
    from engine.training.native.run import NativeRun

    with joined_group(process_environment()) as group:
        NativeRun(recipe, group=group).carry_out(until)


def _check_extra(names: Sequence[str]) -> None:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise TrainingError(
            f"training requires {' and '.join(missing)}: install specgate's extra `train` "
            "(make install-train)"
        )


def _make_repeatable() -> None:
    """Make training reproducible: same recipe, text and machine give the same weights."""
    export_environment(_REPEATABLE_CUDA, forced={})
    torch.use_deterministic_algorithms(True, warn_only=True)
    # This debugging aid fills memory that is overwritten anyway.
    torch.utils.deterministic.fill_uninitialized_memory = False


if __name__ == "__main__":
    sys.exit(main())
