"""Our index on traces that its prior was not fitted to, beside arctic-inference's.

    python -m bench.suffix.folds [--data DIR] [--config FILE]

Each fold is a data set, a kind of request or a project. The prior is fitted to everything else, and
the fold is replayed by both sides at several settings. Two more folds are made up: copies from far
back, where only the longest match is right. Only counts are compared, so the figures do
not depend on the machine. The last line on stdout is one JSON object.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.command import add_data, new_parser, print_line
from bench.peers import InstallError, install
from bench.rounds import Json
from bench.suffix.child import ChildError, Sides
from bench.suffix.corpus import CONFIG, load_corpus, tokenizer_of
from bench.suffix.datasets import DataSet, Request, save_datasets
from bench.suffix.figures import DRAFTED_SHARE, accepted_at_drafted, ratio
from bench.suffix.fit_prior import fit
from bench.suffix.ours import Ours
from bench.suffix.plan import ARCTIC_REQUIREMENTS, FULL, VLLM_DEFAULT, OurSetting
from bench.suffix.replay import Figures, replay
from bench.suffix.texts import far_copies
from loadtest.conversations import DataError
from loadtest.progress import say

_LEAST_TOKENS = 1000  # of answers; a smaller fold is too noisy to be compared
_SHARES = {"equal": 1.0, "less": DRAFTED_SHARE}  # of the peer's drafted tokens
_SURVIVALS = {most: (*swept, 0.7, 0.9) for most, swept in FULL.survivals.items()}
_MADE_UP = {"far": (40, 160), "far, short": (10, 40)}  # tokens of a copied passage
_SETTINGS = {"default": VLLM_DEFAULT, **{f"factor_{s.factor:g}": s for s in FULL.grid[:3]}}


@dataclass(frozen=True, slots=True)
class Fold:
    """Requests that are left out of the fit.

    Attributes:
        held_out: The requests on which both sides are compared; its name is the fold's.
        fitted: All other requests.
    """

    held_out: DataSet
    fitted: Sequence[Request]


def main() -> int:
    """Compare both sides on every fold and print one JSON line."""
    parser = new_parser("suffix.folds")
    add_data(parser)
    parser.add_argument("--config", type=Path, default=CONFIG)
    arguments = parser.parse_args()
    return print_line(
        lambda: _run(arguments.data.resolve(), arguments.config),
        (ChildError, DataError, InstallError, OSError),
    )


def folds_of(datasets: Sequence[DataSet]) -> list[Fold]:
    """Every set, kind and project with enough text, and with text beside it to fit to.

    A kind or project that is a whole set is not repeated.
    """
    every = [((f"set {d.name}", *r.groups), r) for d in datasets for r in d.requests]
    folds: list[Fold] = []
    for name in sorted({name for names, _ in every for name in names}, key=_sets_first):
        held_out = [request for names, request in every if name in names]
        fitted = [request for names, request in every if name not in names]
        fold = Fold(DataSet(name, is_edit=False, requests=held_out, left_out=0), fitted)
        is_known = any(other.held_out.requests == held_out for other in folds)
        if fitted and not is_known and fold.held_out.answer_tokens >= _LEAST_TOKENS:
            folds.append(fold)
    return folds


def made_up(datasets: Sequence[DataSet]) -> list[Fold]:
    """Folds of texts that no real one resembles, fitted to all real ones."""
    fitted = [request for dataset in datasets for request in dataset.requests]
    return [
        Fold(
            DataSet(f"copies from {name}", False, far_copies(40, lengths=lengths, seed=1), 0),
            fitted,
        )
        for name, lengths in _MADE_UP.items()
    ]


def _sets_first(name: str) -> tuple[bool, str]:
    return not name.startswith("set "), name


def compare(ours: Sequence[Figures], theirs: Figures) -> dict[str, float | None]:
    """Accepted tokens a step over the peer's, at shares of the peer's drafted tokens.

    Args:
        ours: The same requests at several thresholds.
        theirs: At one setting.
    """
    found = {}
    for name, share in _SHARES.items():
        accepted = accepted_at_drafted(ours, share * theirs.drafted_per_step)
        found[name] = None if accepted is None else ratio(accepted, theirs.accepted_per_step)
    return found


def summary(folds: Mapping[str, Mapping[str, Mapping[str, float | None]]]) -> Json:
    """Mean and worst fold for each of the peer's settings and each share.

    Args:
        folds: By name, setting and share.
    """
    found: Json = {}
    for setting in next(iter(folds.values())):
        for share in _SHARES:
            values = {
                name: value
                for name, by_setting in folds.items()
                if (value := by_setting[setting][share]) is not None
            }
            worst = min(values, key=lambda name: values[name])
            found[f"{setting}_{share}"] = {
                "mean": sum(values.values()) / len(values),
                "worst": values[worst],
                "worst_fold": worst,
            }
    return found


def _run(data: Path, config: Path) -> Json:
    peer = asyncio.run(install("arctic", ARCTIC_REQUIREMENTS)) / "bin" / "python"
    datasets = load_corpus(data, tokenizer_of(config))
    real = folds_of(datasets)
    folds = [*real, *made_up(datasets)]
    theirs = _replay_arctic(folds, peer)
    found = {}
    for fold in folds:
        name = fold.held_out.name
        curves = _replay_ours(fold)
        found[name] = {
            setting: compare(curves[_SETTINGS[setting].cap], figures[name])
            for setting, figures in theirs.items()
        }
        default = found[name]["default"]
        say(f"{name}: {default['equal']} at equal drafted tokens, {default['less']} at 0.85")
    of_real = summary({fold.held_out.name: found[fold.held_out.name] for fold in real})
    return {"bench": "suffix.folds", **of_real, "folds": found}


def _replay_arctic(folds: Sequence[Fold], peer: Path) -> dict[str, dict[str, Figures]]:
    with tempfile.TemporaryDirectory(prefix="specgate-bench-") as folder:
        tokens = Path(folder, "tokens.npz")
        save_datasets(tokens, [fold.held_out for fold in folds])
        found = {}
        with Sides(Path(sys.executable), peer, tokens).start_arctic() as arctic:
            for setting, values in _SETTINGS.items():
                wanted = {fold.held_out.name: values.as_json() for fold in folds}
                sets = arctic.ask("replay", settings=wanted)["sets"]
                assert isinstance(sets, dict)
                found[setting] = {name: Figures(**counts) for name, counts in sets.items()}
                say(f"arctic: {setting} done")
    return found


def _replay_ours(fold: Fold) -> dict[int, list[Figures]]:
    prior = fit(fold.fitted)
    curves = {}
    for most, survivals in _SURVIVALS.items():
        setting = OurSetting(most, 0.0)
        curves[most] = [
            replay(
                Ours(replace(setting, min_survival=survival).as_json(), prior),
                fold.held_out.requests,
            )[0]
            for survival in survivals
        ]
    return curves


if __name__ == "__main__":
    sys.exit(main())
