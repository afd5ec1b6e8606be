"""Our side: `engine.suffix` through its Python interface, as a worker calls it.

python -m bench.suffix.ours TOKENS.npz
"""

import sys
from collections.abc import Sequence

from bench.suffix.calibration import measure_calibration
from bench.suffix.datasets import Tokens
from bench.suffix.fit_prior import Prior
from bench.suffix.hostile import measure_hostile
from bench.suffix.scale import measure_scale
from bench.suffix.worker import COMMANDS, Setting, serve
from engine.suffix import Continuation, SuffixIndex

_TENANT = "bench"


class Ours:
    """Calls the index.

    Args:
        setting: `max_tokens`, `capacity_bytes`, `salt`, `min_survival`.
        prior: What the model starts from, instead of the shipped prior.
    """

    def __init__(self, setting: Setting, prior: Prior | None = None) -> None:
        self._most = int(setting["max_tokens"])
        self._least = float(setting["min_survival"])
        self._index = SuffixIndex(int(setting["capacity_bytes"]), salt=int(setting["salt"]))
        if prior is not None:
            self._index.core.teach(_TENANT, prior)
        self.append = self._index.extend

    def start(self, name: str, prompt: Tokens) -> None:
        self._index.start(name, _TENANT, prompt)

    def propose(self, name: str, text: Tokens, end: int) -> tuple[object, list[int]]:
        draft = self._index.propose(name, self._most, min_survival=self._least)
        return draft, draft.tokens

    def propose_rows(
        self, names: Sequence[str], texts: Sequence[tuple[Tokens, int]]
    ) -> list[list[int]]:
        return [self.propose(name, *text)[1] for name, text in zip(names, texts, strict=True)]

    def finish(self, name: str) -> None:
        self._index.finish(name, keep=True)

    def claims(self, draft: object) -> tuple[Sequence[float], Sequence[float]]:
        assert isinstance(draft, Continuation)
        return draft.survival, draft.share

    def claimed_bytes(self) -> int:
        return self._index.stats().bytes


if __name__ == "__main__":
    ours = {
        "calibration": measure_calibration,
        "scale": measure_scale,
        "hostile": measure_hostile,
    }
    sys.exit(serve(sys.argv[1], Ours, {**COMMANDS, **ours}))
