"""The Python face of the suffix index: types, defaults, and what each call promises.

The work is done in core/ (C++20). An argument is checked before anything changes, so a call that
raises leaves the index as it was.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fsencode

import numpy as np
from numpy.typing import NDArray

from engine._core.suffix import LONGEST_DRAFT, Draft, Index, Stats
from engine.errors import SuffixInputError

__all__ = ["LONGEST_DRAFT", "Draft", "DraftBatch", "Index", "Stats", "SuffixIndex"]

Tokens = Sequence[int] | NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class DraftBatch:
    """Drafts of several requests, a row each.

    Attributes:
        tokens: int32, shape (rows, width); row r is valid up to `lengths[r]`.
        survival: float32, same shape: probability that the token and all before it are accepted.
        lengths: int32, shape (rows,).
        predicted: int32, shape (rows,): leading tokens that follow the request's prediction, as
            in `propose`.
    """

    tokens: NDArray[np.int32]
    survival: NDArray[np.float32]
    lengths: NDArray[np.int32]
    predicted: NDArray[np.int32]


class SuffixIndex:
    """Drafts from what a request, and its tenant's finished requests, have written so far.

    Safe from several threads. Deterministic: the same calls in the same order give the same
    drafts, whatever the salt (but for a collision of hashes, which displaces a rare match).

    Args:
        capacity_bytes: Bound on the memory of texts, tables and calibrations; 1 MiB to 64 GiB.
        salt: Secret of the hash, 64 bits. Random if not given; give it only to repeat a run bit
            by bit.

    Raises:
        SuffixInputError: `capacity_bytes` or `salt` is out of range.
    """

    def __init__(self, capacity_bytes: int, *, salt: int | None = None) -> None:
        self._core = Index(capacity_bytes, secrets.randbits(64) if salt is None else salt)

    @property
    def core(self) -> Index:
        """The compiled index, for C++ that asks it for all rows of a step (engine/drafting)."""
        return self._core

    def start(
        self, request: str, tenant: str, prompt_tokens: Tokens, *, temperature: float = 0.0
    ) -> None:
        """Begin a request. Its prompt is seen by it alone, and gone when it ends.

        Of a prompt that the free memory cannot hold only the latest part is remembered.

        Args:
            request: Name, not empty, unique among running requests.
            tenant: Whose finished answers it may draft from.
            prompt_tokens: At least one id, each >= 0; a list, or int32 of shape (n,). Copied.
            temperature: At which its answer is sampled, at least 0; 0: greedily. Of equal matches
                the warmer request's survive less often, and the calibration learns by how much.

        Raises:
            DuplicateRequestError: A request of that name is running.
            SuffixCapacityError: Running requests use all of the memory.
            SuffixInputError: An argument is not as described.

        Cost: about 25 ns a token.
        """
        self._core.start(request, tenant, prompt_tokens, temperature)

    def extend(self, request: str, tokens: Tokens) -> None:
        """Tell what was generated: accepted draft tokens and the one that follows them.

        The last draft, if `observe` was not called for it, is scored by these tokens, and the
        calibration learns from that.

        Args:
            request: A running request.
            tokens: At least one id, each >= 0; a list, or int32 of shape (n,). Copied.

        Raises:
            UnknownRequestError: The request was never started, or has ended.
            SuffixInputError: `tokens` is not as described.

        Cost: about 0.1 us a token; no search.
        """
        self._core.extend(request, tokens)

    def predict(self, request: str, tokens: Tokens) -> None:
        """Give text that the answer is likely to repeat; only this request drafts from it.

        A later prediction replaces an earlier one.

        Args:
            request: A running request.
            tokens: The predicted answer from its start; as in `extend`.

        Raises:
            UnknownRequestError: The request was never started, or has ended.
            SuffixInputError: `tokens` is not as described.
        """
        self._core.predict(request, tokens)

    def propose(self, request: str, max_tokens: int, *, min_survival: float | None = None) -> Draft:
        """Continue what the request has written with the likeliest text seen before.

        Args:
            request: A running request.
            max_tokens: Most tokens to draft, 0 to `LONGEST_DRAFT`.
            min_survival: The draft ends before the first token whose survival is below it, 0 to 1.
                None: a price that rises along the draft, by the tenant's mean acceptance length
                L: 0.0715 * L^0.75 * place^0.5, at most 0.8, where `place` counts from 1. That is
                where a token pays if to verify it costs about 7 % of a step; see adr/0012.

        Returns:
            Tokens and, for each, the calibrated probability that it and all before it are
            accepted (never rising). Empty when nothing matches. `predicted` of its leading tokens
            follow the request's prediction: a match in it voted for them. Zero without one.

        Raises:
            UnknownRequestError: The request was never started, or has ended.
            SuffixInputError: `max_tokens` or `min_survival` is out of range.

        Source: arXiv:2411.04975 (SuffixDecoding) for the idea; matcher and calibration are our
        own, see adr/0011 and adr/0012.
        """
        return self._core.propose(request, max_tokens, min_survival)

    def advance(
        self, request: str, tokens: Tokens, max_tokens: int, min_survival: float | None = None
    ) -> Draft:
        """Do `extend`, then `propose` unless `max_tokens` is 0: a step of a request in one call.

        Args, errors and the draft are theirs.
        """
        return self._core.advance(request, tokens, max_tokens, min_survival)

    def propose_many(
        self,
        requests: Sequence[str],
        max_tokens: NDArray[np.int32],
        *,
        min_survival: float | None = None,
    ) -> DraftBatch:
        """Draft for all rows of a step in one call, without the interpreter lock.

        Args:
            requests: Running requests, a row each.
            max_tokens: Most tokens to draft for each; int32, shape (rows,), 0 to `LONGEST_DRAFT`.
            min_survival: As in `propose`.

        Raises:
            UnknownRequestError: One of them was never started, or has ended; none is drafted for.
            SuffixInputError: An argument is not as described.
        """
        names = _names(requests)
        most = _column(max_tokens)
        width = int(most.max(initial=0))
        if width > LONGEST_DRAFT:
            raise SuffixInputError(f"max_tokens: must be from 0 to {LONGEST_DRAFT}")
        tokens = np.zeros((len(names), width), np.int32)
        survival = np.zeros((len(names), width), np.float32)
        lengths = np.zeros(len(names), np.int32)
        predicted = np.zeros(len(names), np.int32)
        self._core.propose_many(names, most, min_survival, tokens, survival, lengths, predicted)
        return DraftBatch(tokens, survival, lengths, predicted)

    def propose_after(
        self,
        request: str,
        tokens: Tokens,
        survival: float,
        max_tokens: int,
        *,
        min_survival: float | None = None,
    ) -> Draft:
        """Continue what another drafter proposes, as if it had been generated.

        Changes nothing: the draft is not scored, and the last one of `propose` stays the one that
        `observe` and `extend` score. What `propose` was asked before makes no difference.

        Args:
            request: A running request.
            tokens: What the other drafter proposes to come next, oldest first: 1 to
                `LONGEST_DRAFT` ids, each >= 0; a list, or int32 of shape (n,).
            survival: Probability that all of them are accepted, 0 to 1.
            max_tokens: Most tokens to draft behind them, 0 to `LONGEST_DRAFT`.
            min_survival: As in `propose`.

        Returns:
            As `propose`, but only what comes behind `tokens`. Its survival is that of `tokens`
            too, so it compares with that of other drafts for the same step.

        Raises:
            UnknownRequestError: The request was never started, or has ended.
            SuffixInputError: An argument is not as described.
        """
        return self._core.propose_after(request, tokens, survival, max_tokens, min_survival)

    def observe(self, request: str, accepted: int) -> None:
        """Tell how many tokens of the last draft were accepted, before `extend`.

        For callers that verify; without it `extend` finds out by itself.

        Args:
            request: A running request.
            accepted: 0 to the length of the last draft.

        Raises:
            UnknownRequestError: The request was never started, or has ended.
            SuffixInputError: `accepted` is out of range.
        """
        self._core.observe(request, accepted)

    def finish(self, request: str, *, keep: bool) -> None:
        """End a request and forget its prompt and prediction.

        Args:
            request: A running request.
            keep: Whether its answer stays, for later requests of its tenant.

        Raises:
            UnknownRequestError: The request was never started, or has ended.
        """
        self._core.finish(request, keep)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the finished answers and the calibration of every tenant to a file.

        The file is replaced as a whole. Other calls wait meanwhile (about a second a gigabyte).

        Raises:
            OSError: The file cannot be written.
        """
        with _naming(path) as name:
            self._core.save(name)

    def load(self, path: str | PathLike[str]) -> None:
        """Replace what the index knows by a file that `save` wrote.

        Raises:
            SnapshotError: It is no such file, of another version, or damaged; the index is empty.
            SuffixInputError: Requests are running; nothing changed.
            OSError: The file cannot be read; the index is empty.
        """
        with _naming(path) as name:
            self._core.load(name)

    def clear(self) -> None:
        """Forget everything.

        Raises:
            SuffixInputError: Requests are running; nothing changed.
        """
        self._core.clear()

    def stats(self) -> Stats:
        """Tokens, bytes, tenants and running requests now; evicted tokens since the start."""
        return self._core.stats()


def _names(value: Sequence[str]) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise SuffixInputError(f"requests: must be a list, not {type(value).__name__}")
    return list(value)


def _column(value: object) -> NDArray[np.int32]:
    if not isinstance(value, np.ndarray) or value.dtype != np.int32 or value.ndim != 1:
        raise SuffixInputError("max_tokens: must be an int32 array of one dimension")
    return np.ascontiguousarray(value)


@contextmanager
def _naming(path: str | PathLike[str]) -> Iterator[bytes]:
    """Give the path as the system wants it, and name it in an OSError."""
    try:
        name = fsencode(path)
    except (TypeError, ValueError) as exc:
        raise SuffixInputError(f"path: {exc}") from exc
    if b"\0" in name:
        raise SuffixInputError("path: holds a null character")
    try:
        yield name
    except OSError as exc:
        exc.filename = path
        raise
