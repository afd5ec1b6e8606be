"""The suffix index as a source of drafts: begins, feeds, asks and ends requests in it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.drafting.control import Control
from engine.suffix import Draft, Index, SuffixIndex


class SuffixSource:
    """Drafts from what a request and its tenant wrote before (engine/suffix)."""

    def __init__(self, index: SuffixIndex) -> None:
        self.index = index

    @property
    def core(self) -> Index:
        """The compiled index, which a step asks for all of its rows at once."""
        return self.index.core

    def begin(self, request: str, control: Control, tokens: NDArray[np.int32]) -> None:
        """Start a request; `tokens` is all it has so far.

        Raises:
            SuffixError: As `SuffixIndex.start` and `predict`; the request is then not running.
        """
        self.index.start(request, control.tenant, tokens, temperature=control.temperature)
        if control.prediction:
            try:
                self.index.predict(request, control.prediction)
            except Exception:
                self.index.finish(request, keep=False)
                raise

    def advance(self, request: str, tokens: Sequence[int], most: int, floor: float) -> Draft:
        """Take in what was generated; then draft up to `most` tokens, none less sure than `floor`.

        That scores the last draft, whether it was used or not.
        """
        return self.index.advance(request, tokens, most, floor)

    def go_on(
        self, request: str, tokens: Sequence[int], survival: float, most: int, *, floor: float
    ) -> Draft:
        """Draft up to `most` tokens behind another drafter's, all accepted with `survival`."""
        return self.index.propose_after(request, tokens, survival, most, min_survival=floor)

    def end(self, request: str, *, keep: bool) -> None:
        """End a request; with `keep` its answer stays for its tenant."""
        self.index.finish(request, keep=keep)
