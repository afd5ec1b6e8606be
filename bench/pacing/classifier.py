"""The eavesdropper's classifier; runs in an environment of its own that has scikit-learn.

    python -m bench.pacing.classifier FILE.npz

The file holds `labels` and `folds`, shape (answers,), and tables `x_<view>_<group>`, shape
(answers, features). The last line on stdout is a JSON object: by view and group, the share of the
answers of each fold that a classifier trained on the other folds recognised; group `best` is the
group that did best on the training answers, out of bag.

A random forest and extremely randomized trees vote. Forests suit the data: hundreds of raw features
of different scales, few of them informative, and 15 training answers for each prompt.
"""

import json
import sys
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

_TREES = 300
_SEED = 7


def main() -> None:
    """Train and test on every table."""
    data = np.load(sys.argv[1])
    labels, folds = data["labels"], data["folds"]
    views: dict[str, list[str]] = defaultdict(list)
    for name in data.files:
        if name.startswith("x_"):
            views[name.split("_")[1]].append(name)
    found: dict[str, dict[str, list[float]]] = {}
    for view, names in views.items():
        found[view] = {group: [] for group in [*(name.split("_")[2] for name in names), "best"]}
        for fold in np.unique(folds):
            tested = folds == fold
            results = {name: _try(data[name], labels, tested) for name in names}
            for name, (_, accuracy) in results.items():
                found[view][name.split("_")[2]].append(accuracy)
            found[view]["best"].append(max(results.values(), key=lambda each: each[0])[1])
    sys.stdout.write(json.dumps(found) + "\n")


def _try(
    table: NDArray[np.float64], labels: NDArray[np.int64], tested: NDArray[np.bool_]
) -> tuple[float, float]:
    """Out-of-bag accuracy on the training answers, and accuracy on those that are tested."""
    votes: float | NDArray[np.float64] = 0.0
    trusted = 0.0
    for kind in (RandomForestClassifier, ExtraTreesClassifier):
        forest = kind(
            n_estimators=_TREES, random_state=_SEED, n_jobs=-1, bootstrap=True, oob_score=True
        )
        forest.fit(table[~tested], labels[~tested])
        votes = votes + forest.predict_proba(table[tested])
        trusted += float(forest.oob_score_)
    predicted = np.unique(labels[~tested])[np.argmax(votes, axis=1)]
    return trusted, float((predicted == labels[tested]).mean())


if __name__ == "__main__":
    main()
