"""Plays the answers to many prompts and measures how well an eavesdropper recognises them."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.client import Crowd, Exchange
from bench.pacing.features import table
from bench.pacing.figures import Values
from bench.pacing.patterns import ANSWER, Pattern
from bench.pacing.plan import Mode, Plan
from bench.pacing.round import play
from bench.pacing.targets import Stage
from bench.peers import install
from loadtest.processes import RunError, run_to_end
from loadtest.progress import say

ATTACKED: Mapping[str, Mode] = {"raw": "off", "smooth": "smooth", "private": "private"}
"""What the eavesdropper is given, by the name that the figures have."""
_REQUIREMENTS = ("numpy==2.3.5", "scikit-learn==1.9.1")
_LIMIT_SECONDS = 60.0
_TRAIN_SECONDS = 1_200.0

Accuracy = Mapping[str, Mapping[str, Sequence[float]]]


class AttackError(Exception):
    """The eavesdropper could not be heard out; the message says why."""


@dataclass(frozen=True, slots=True)
class Attack:
    """What the eavesdropper got right.

    Attributes:
        accuracy: By what it was given and group of features, the share of each fold; `best` is
            the group that it would choose by what it was trained on.
        prompts: How many prompts there were.
        answers: How many answers it was tested on, all folds together.
        flaws: Why answers that could not be played were left out.
    """

    accuracy: Accuracy
    prompts: int
    answers: int
    flaws: Sequence[str]

    @property
    def chance(self) -> float:
        """Accuracy of a random guess."""
        return 1 / self.prompts


def folds_of(answers: Sequence[Pattern], plan: Plan) -> list[int]:
    """In which fold each answer is tested: by run, so that every fold has every prompt."""
    runs = [answer.run for answer in answers if answer.run is not None]
    assert len(runs) == len(answers), "an answer without its run"
    return [run % plan.folds for run in runs]


async def attack(stage: Stage, patterns: Sequence[Pattern], plan: Plan) -> Attack:
    """Play every answer in each mode; train on some runs, test on the others.

    Raises:
        AttackError: No answer could be played in every mode, or the classifier failed.
        InstallError: scikit-learn cannot be had.
        MismatchError: A client assembled another text than the worker sent.
    """
    answers = [pattern for pattern in patterns if pattern.kind == ANSWER]
    crowd = Crowd(plan.answers_at_once, spacing_seconds=0.011, limit_seconds=_LIMIT_SECONDS)
    seen: dict[str, Sequence[Exchange]] = {}
    flaws: list[str] = []
    for name, mode in ATTACKED.items():
        say(f"playing {len(answers)} answers to the eavesdropper: {name}")
        playback = await play(stage, answers, mode, crowd)
        seen[name] = playback.captures
        flaws += playback.flaws
    whole = [
        number
        for number in range(len(answers))
        if all(captures[number].flaw is None for captures in seen.values())
    ]
    if not whole:
        raise AttackError(flaws[0] if flaws else "there are no recorded answers")
    tables = {
        f"x_{name}_{group}": values
        for name, captures in seen.items()
        for group, values in table([observed(captures[number]) for number in whole]).items()
    }
    complete = [answers[number] for number in whole]
    say("the eavesdropper learns")
    accuracy = await _classify(
        tables,
        labels=np.array([answer.prompt for answer in complete]),
        folds=np.array(folds_of(complete, plan)),
    )
    prompts = len({answer.prompt for answer in answers})
    return Attack(accuracy, prompts, len(complete), flaws)


def observed(capture: Exchange) -> tuple[Values, Values]:
    """Milliseconds after the request and bytes of each packet."""
    times_ms = [(at_ns - capture.sent_ns) / 1e6 for at_ns, _ in capture.packets]
    return np.array(times_ms), np.array([float(len(data)) for _, data in capture.packets])


async def _classify(
    tables: Mapping[str, Values], *, labels: np.ndarray, folds: np.ndarray
) -> Accuracy:
    folder = await install("eavesdropper", _REQUIREMENTS)
    with tempfile.TemporaryDirectory(prefix="specgate-attack-") as name:
        path = Path(name) / "tables.npz"
        # numpy's stub takes any name for its flag.
        arrays: dict[str, Any] = {**tables, "labels": labels, "folds": folds}
        np.savez(path, **arrays)
        python = str(folder / "bin" / "python")
        try:
            output = await run_to_end(
                *(python, "-m", "bench.pacing.classifier", str(path)), seconds=_TRAIN_SECONDS
            )
        except RunError as error:
            raise AttackError(f"the classifier failed: {error}") from error
    found: Accuracy = json.loads(output.splitlines()[-1])
    return found
