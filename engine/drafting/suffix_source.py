"""Starts and ends requests in the suffix index. A step asks the compiled index itself."""

import numpy as np
from numpy.typing import NDArray

from engine.drafting.control import Control
from engine.suffix import SuffixIndex


class SuffixSource:
    """The suffix index as a source of drafts.

    Attributes:
        index: As given.
    """

    def __init__(self, index: SuffixIndex) -> None:
        self.index = index

    def begin(self, request: str, control: Control, tokens: NDArray[np.int32]) -> None:
        """Start a request.

        Args:
            request: Its id.
            control: Its tenant, temperature and prediction.
            tokens: Its prompt and whatever it generated before; int32, shape (n,), n >= 1.

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

    def end(self, request: str, *, keep: bool) -> None:
        """End a request; `keep`: its answer stays for later requests of its tenant."""
        self.index.finish(request, keep=keep)
