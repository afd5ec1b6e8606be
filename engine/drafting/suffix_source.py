"""The suffix index as a source of drafts: begins, feeds, asks and ends requests in it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.drafting.control import Control
from engine.drafting.rows import Proposal
from engine.suffix import SuffixIndex


class SuffixSource:
    """Drafts from what a request and its tenant wrote before (engine/suffix)."""

    def __init__(self, index: SuffixIndex) -> None:
        self.index = index

    def begin(self, request: str, control: Control, tokens: NDArray[np.int32]) -> None:
        """Start a request; `tokens` is all it has so far.

        Raises:
            SuffixError: As `SuffixIndex.start` and `predict`; the request is then not running.
        """
        self.index.start(request, control.tenant, tokens)
        if control.prediction:
            try:
                self.index.predict(request, control.prediction)
            except Exception:
                self.index.finish(request, keep=False)
                raise

    def extend(self, request: str, tokens: Sequence[int]) -> None:
        """Tell what was generated; scores the last draft, whether it was used or not."""
        self.index.extend(request, tokens)

    def propose(
        self, requests: Sequence[str], most: Sequence[int], *, floor: float
    ) -> list[Proposal]:
        """Draft for several requests; no token whose survival is below `floor`."""
        if len(requests) == 1:
            # A quarter of the time of a call for many.
            draft = self.index.propose(requests[0], most[0], min_survival=floor)
            return [Proposal(draft.tokens, draft.survival, draft.predicted)]
        batch = self.index.propose_many(requests, np.array(most, np.int32), min_survival=floor)
        columns = (batch.lengths, batch.tokens, batch.survival, batch.predicted)
        return [
            Proposal(tokens[:length], survival[:length], predicted)
            for length, tokens, survival, predicted in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]

    def go_on(
        self, request: str, tokens: Sequence[int], survival: float, most: int, *, floor: float
    ) -> Proposal:
        """Draft up to `most` tokens behind another drafter's, all accepted with `survival`."""
        draft = self.index.propose_after(request, tokens, survival, most, min_survival=floor)
        return Proposal(draft.tokens, draft.survival, draft.predicted)

    def end(self, request: str, *, keep: bool) -> None:
        """End a request; with `keep` its answer stays for its tenant."""
        self.index.finish(request, keep=keep)
