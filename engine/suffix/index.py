"""The Python interface of the suffix index; the work is done in core/ (C++20).

Arguments are checked before anything changes, so a call that raises leaves the index as it was.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike, fsencode

import numpy as np
from numpy.typing import NDArray

from engine._core.suffix import LONGEST_DRAFT, Continuation, Index, Loaded, Stats
from engine.errors import SuffixInputError

__all__ = ["LONGEST_DRAFT", "Continuation", "Index", "Loaded", "Stats", "SuffixIndex"]

Tokens = Sequence[int] | NDArray[np.int32]

_EVERY_TOKEN = 1 << 31


class SuffixIndex:
    """Drafts from what a request, and its tenant's finished requests, have written before.

    Thread-safe. Deterministic: the same calls in the same order give the same drafts, whatever the
    salt (except that a hash collision may hide a match).

    No draft has an id outside of the vocabulary. Such ids are accepted in every text (those of
    images, for example, also negative ones): they keep their position, and nothing matches them.

    Without memory of the system a call fares as if the index were full, or raises MemoryError; the
    index stays usable.

    Args:
        capacity_bytes: Upper bound on the memory of texts, tables and models; 1 MiB to 64 GiB.
        vocabulary: Number of the model's token ids, 1 to 2^31; by default every int32 >= 0 is one.
        salt: Secret of the hash, 64 bits; random by default. Give it only to reproduce a run
            exactly.

    Raises:
        SuffixInputError: An argument is out of range.
    """

    def __init__(
        self, capacity_bytes: int, *, vocabulary: int = _EVERY_TOKEN, salt: int | None = None
    ) -> None:
        secret = secrets.randbits(64) if salt is None else salt
        self._core = Index(capacity_bytes, vocabulary, secret)

    @property
    def core(self) -> Index:
        """The compiled index, for C++ that asks it for all sequences of a step at once."""
        return self._core

    def start(
        self, request: str, tenant: str, prompt_tokens: Tokens, *, temperature: float = 0.0
    ) -> None:
        """Start a request. Only this request drafts from its prompt, which is dropped at its end.

        If the prompt does not fit in the available memory, only its latest part is kept.

        Args:
            request: Name, not empty, unique among running requests; at most 1024 bytes of UTF-8.
            tenant: Whose finished answers it may draft from; likewise at most 1024 bytes. Of 1024
                tenants the one that was used longest ago gives way to a new one.
            prompt_tokens: At least one id; a list, or int32 of shape (n,). Copied.
            temperature: Of sampling, >= 0; 0: greedy. Drafts of hotter requests survive less
                often, and the model learns by how much.

        Raises:
            DuplicateRequestError: A request of that name is running.
            SuffixCapacityError: Running requests use all of the memory, or the system has none.
            SuffixInputError: An argument is not as described.

        Cost: about 25 ns per token.
        """
        self._core.start(request, tenant, prompt_tokens, temperature)

    def extend(self, request: str, tokens: Tokens) -> None:
        """Append generated tokens: the accepted draft tokens and the one that follows them.

        Scores the last draft against these tokens, and the model learns from it.

        Args:
            request: A running request.
            tokens: At least one id; a list, or int32 of shape (n,). Copied.

        Raises:
            UnknownRequestError: The request was never started, or has ended.
            SuffixInputError: `tokens` is not as described.

        Cost: about 0.1 us per token; no search.
        """
        self._core.extend(request, tokens)

    def predict(self, request: str, tokens: Tokens) -> None:
        """Set text that the answer is likely to repeat; only this request drafts from it.

        Replaces an earlier prediction.

        Args:
            request: A running request.
            tokens: The predicted answer from its start; as in `extend`.

        Raises:
            UnknownRequestError: The request was never started, or has ended.
            SuffixCapacityError: The system has no memory.
            SuffixInputError: `tokens` is not as described.
        """
        self._core.predict(request, tokens)

    def propose(self, request: str, max_tokens: int, *, min_survival: float = 0.0) -> Continuation:
        """Continue what the request has written with the most likely text seen before.

        Args:
            request: A running request.
            max_tokens: Longest draft, 0 to `LONGEST_DRAFT`.
            min_survival: The draft ends before the first token whose survival is lower; 0 to 1.

        Returns:
            The draft; empty if nothing matches.

        Raises:
            UnknownRequestError: The request was never started, or has ended.
            SuffixInputError: `max_tokens` or `min_survival` is out of range.

        Source: The idea is SuffixDecoding's (arXiv:2411.04975). Matcher and calibration differ, see
        docs/adr/0011 and docs/adr/0012.
        """
        return self._core.propose(request, max_tokens, min_survival)

    def propose_after(
        self,
        request: str,
        tokens: Tokens,
        survival: float,
        max_tokens: int,
        *,
        min_survival: float = 0.0,
    ) -> Continuation:
        """Continue another drafter's proposal as if it had been generated.

        Changes nothing: this draft is not scored, and `extend` still scores the last one of
        `propose`. The result does not depend on whether `propose` was called before.

        Args:
            request: A running request.
            tokens: What the other drafter proposes, oldest first: 1 to `LONGEST_DRAFT` ids; a
                list, or int32 of shape (n,). After an id outside of the vocabulary the draft is
                empty.
            survival: Probability that all of them are accepted, 0 to 1.
            max_tokens: Most tokens to draft after them, 0 to `LONGEST_DRAFT`.
            min_survival: As in `propose`.

        Returns:
            The tokens after `tokens`. Their survival includes that of `tokens`, so it can be
            compared with the survival of other drafts for the same step.

        Raises:
            UnknownRequestError: The request was never started, or has ended.
            SuffixInputError: An argument is not as described.
        """
        return self._core.propose_after(request, tokens, survival, max_tokens, min_survival)

    def finish(self, request: str, *, keep: bool) -> None:
        """End a request and drop its prompt and prediction.

        Args:
            request: A running request.
            keep: Whether to keep its answer for later requests of its tenant.

        Raises:
            UnknownRequestError: The request was never started, or has ended.
        """
        self._core.finish(request, keep)

    def save(self, path: str | PathLike[str], *, identity: str = "") -> None:
        """Write the finished answers and the calibration of every tenant to a file.

        Replaces the file atomically, with mode 0600. Other calls go on meanwhile: the index is
        copied in pieces, and a call waits for one of them, some 0.1 ms. So each tenant is saved as
        of the moment of its copy, without what was evicted during it.

        Args:
            path: One process at a time may save to it.
            identity: Names the model and its tokenizer; at most 4096 bytes of UTF-8.

        Raises:
            OSError: The file cannot be written; the old one stays.
            SuffixInputError: `path` or `identity` is not as described.
        """
        with _naming(path) as name:
            self._core.save(name, identity)

    def load(
        self, path: str | PathLike[str], *, identity: str = "", loaded: Loaded | None = None
    ) -> None:
        """Add the answers of a file written by `save`, perhaps by another index.

        Each goes to its own tenant, after what the tenant has. A tenant without running requests
        takes the calibration of the file. Other calls go on meanwhile, and wait for one answer. A
        file from elsewhere is safe to load, but what it holds is drafted.

        Args:
            path: Of the file.
            identity: As at the save; a file with another one, or of an index with another
                vocabulary, is refused.
            loaded: What was loaded from other files; the same answers in this one add nothing.

        Raises:
            SnapshotError: The file is not a snapshot, has another version, is of another model, is
                larger than the index may be, or is damaged. Nothing changed.
            SuffixCapacityError: As in `start`; some answers may have been added.
            SuffixInputError: `path` or `identity` is not as described.
            OSError: The file cannot be read; nothing changed.

        Cost: 140 to 200 ns per token.
        """
        with _naming(path) as name:
            self._core.load(name, identity, Loaded() if loaded is None else loaded)

    def clear(self) -> None:
        """Drop everything.

        Raises:
            SuffixInputError: Requests are running; nothing changed.
        """
        self._core.clear()

    def stats(self) -> Stats:
        """Return tokens, bytes, tenants, running requests, and tokens evicted since the start."""
        return self._core.stats()


@contextmanager
def _naming(path: str | PathLike[str]) -> Iterator[bytes]:
    """Encode the path for the operating system, and name it in an OSError."""
    try:
        name = fsencode(path)
    except (TypeError, ValueError) as exc:
        raise SuffixInputError(f"path: {exc}") from exc
    if b"\0" in name:
        raise SuffixInputError("path: contains a null character")
    try:
        yield name
    except OSError as exc:
        exc.filename = path
        raise
