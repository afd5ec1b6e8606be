"""Types of the compiled index; engine/suffix/index.py documents each call."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Tokens = Sequence[int] | NDArray[np.int32]
Numbers = dict[str, float | list[float] | list[list[float]]]

LONGEST_DRAFT: int

class Continuation:
    """A draft; each attribute is a copy.

    Attributes:
        tokens: Token ids.
        survival: For each token the calibrated probability that it and all before it are accepted;
            it never rises.
        share: For each token the product of the vote shares up to it: an uncalibrated estimate of
            the same, for benchmarks.
        predicted: How many leading tokens follow the request's prediction.
    """

    def __len__(self) -> int: ...
    @property
    def tokens(self) -> list[int]: ...
    @property
    def survival(self) -> list[float]: ...
    @property
    def share(self) -> list[float]: ...
    @property
    def predicted(self) -> int: ...

class Stats:
    """What the index holds.

    Attributes:
        tokens: Of finished answers of all tenants.
        bytes: In use, including the text of running requests.
        capacity_bytes: Upper bound of `bytes`.
        tenants: With anything in the index.
        requests: Running.
        evicted_tokens: Of finished answers, since the index was made.
    """

    @property
    def tokens(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def capacity_bytes(self) -> int: ...
    @property
    def tenants(self) -> int: ...
    @property
    def requests(self) -> int: ...
    @property
    def evicted_tokens(self) -> int: ...

class Loaded:
    """Answers that were loaded, so that other files with the same ones add nothing."""

    def __init__(self) -> None: ...

class Index:
    def __init__(self, capacity_bytes: int, vocabulary: int, salt: int, /) -> None: ...
    def start(self, request: str, tenant: str, prompt: Tokens, temperature: float, /) -> None: ...
    def extend(self, request: str, tokens: Tokens, /) -> None: ...
    def predict(self, request: str, tokens: Tokens, /) -> None: ...
    def propose(self, request: str, max_tokens: int, min_survival: float, /) -> Continuation: ...
    def propose_after(
        self,
        request: str,
        tokens: Tokens,
        survival: float,
        max_tokens: int,
        min_survival: float,
        /,
    ) -> Continuation: ...
    def finish(self, request: str, keep: bool, /) -> None: ...
    def save(self, path: bytes, identity: str, /) -> None: ...
    def load(self, path: bytes, identity: str, loaded: Loaded, /) -> None: ...
    def clear(self) -> None: ...
    def stats(self) -> Stats: ...
    def calibration(self, tenant: str, /) -> Numbers | None:
        """Return what a tenant's model has learnt, in the form of `prior`; None if unknown."""

    def teach(self, tenant: str, prior: Numbers, /) -> None:
        """Have a tenant's model start anew from `prior`.

        Raises:
            SuffixInputError: A value or a list's length is out of range.
        """

def prior() -> Numbers:
    """Return the numbers that every tenant's model starts from (docs/adr/0012)."""
