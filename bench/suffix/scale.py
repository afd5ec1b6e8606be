"""Our index at a million tokens and at a hundred million: both alive, measured in turn."""

import ctypes
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.rounds import Json
from bench.suffix.datasets import Request, Tokens, document_of
from bench.suffix.replay import accepted_of, distribution
from bench.suffix.texts import edited_copies
from bench.suffix.worker import DataSets, Factory, edits_first, resident_bytes
from engine.suffix import SuffixIndex

_TENANT = "bench"
_ANSWER_TOKENS = 4096
_PART_TOKENS = 512
_NEED_BYTES = 6 << 30  # free memory without which the largest size is refused
_LARGE_TOKENS = 50_000_000
_PROMPT_TOKENS = 4096
_HELD_OUT = 4  # one conversation in so many is not indexed, but measured
_REQUESTS = 400
_STEPS = 60  # a request, so that many requests are seen

Conversation = Sequence[Request]


class _Sized:
    """An index of one size and what was measured with it."""

    def __init__(self, tokens: int, capacity_bytes: int, salt: int) -> None:
        self.tokens = tokens
        self.index = SuffixIndex(capacity_bytes, salt=salt)
        self.bulk_append_ns = 0.0
        self.resident_bytes = 0
        self.steps = 0
        self.accepted = 0
        self.drafted = 0
        self.propose_p50: list[float] = []
        self.append_mean: list[float] = []
        self.every: list[int] = []

    def fill(self, corpus: Tokens, seed: int) -> None:
        _trim()
        before = resident_bytes()
        spent = count = 0
        for piece in edited_copies(corpus, self.tokens, seed=seed):
            began = time.perf_counter_ns()
            for at in range(0, len(piece), _ANSWER_TOKENS):
                self._keep(f"fill{count}-{at}", piece[at : at + _ANSWER_TOKENS])
            spent += time.perf_counter_ns() - began
            count += len(piece)
        self.bulk_append_ns = spent / count
        del piece
        _trim()
        self.resident_bytes = resident_bytes() - before

    def _keep(self, name: str, text: Tokens) -> None:
        self.index.start(name, _TENANT, text[:1])
        for at in range(0, len(text), _PART_TOKENS):
            self.index.extend(name, text[at : at + _PART_TOKENS])
        self.index.finish(name, keep=True)

    def as_json(self) -> Json:
        stats = self.index.stats()
        return {
            "tokens": stats.tokens,
            "evicted_tokens": stats.evicted_tokens,
            "bytes": stats.bytes,
            "resident_bytes": self.resident_bytes,
            "bytes_per_token": stats.bytes / max(1, stats.tokens),
            "bulk_append_ns": self.bulk_append_ns,
            "append_ns": statistics.median(self.append_mean),
            "propose_ns": {**distribution(self.every), "p50": statistics.median(self.propose_p50)},
            "accepted_per_step": self.accepted / max(1, self.steps),
            "drafted_per_step": self.drafted / max(1, self.steps),
        }


def measure_scale(_: Factory, datasets: DataSets, arguments: Mapping[str, object]) -> Json:
    """Fill an index of each size, then continue real requests in each of them, in turn."""
    sizes, rounds, capacity = (arguments[key] for key in ("sizes", "rounds", "capacity_bytes"))
    assert isinstance(sizes, list)
    assert isinstance(rounds, int)
    assert isinstance(capacity, int)
    refused = [size for size in sizes if size > _LARGE_TOKENS and _free_bytes() < _NEED_BYTES]
    known, held_out = _divided(datasets)
    corpus = np.concatenate([document_of(conversation) for conversation in known])
    indexes = []
    for size in sizes:
        if size not in refused:
            indexes.append(_Sized(size, capacity, salt=size))
            indexes[-1].fill(corpus, seed=size)
    requests = [request for conversation in held_out for request in conversation]
    requests = requests[:: max(1, len(requests) // _REQUESTS)]
    for number in range(rounds):
        for sized in indexes[number % len(indexes) :] + indexes[: number % len(indexes)]:
            _continue(sized, requests[number::rounds])
    return {
        "sizes": {str(sized.tokens): sized.as_json() for sized in indexes},
        "rounds": {str(sized.tokens): sized.propose_p50 for sized in indexes},
        "corpus_tokens": len(corpus),
        "requests": len(requests),
        "refused": [
            f"{size}: less than {_NEED_BYTES >> 30} GiB of memory free" for size in refused
        ],
    }


def _divided(datasets: DataSets) -> tuple[list[Conversation], list[Conversation]]:
    """Conversations to fill the indexes with, and those that then continue in them."""
    known: list[Conversation] = []
    held_out: list[Conversation] = []
    for dataset in edits_first(datasets):
        for number, conversation in enumerate(dataset.conversations):
            (held_out if number % _HELD_OUT == 1 else known).append(conversation)
    return (known, held_out) if known and held_out else (known + held_out, known + held_out)


def _continue(sized: _Sized, requests: Sequence[Request]) -> None:
    propose_ns: list[int] = []
    append_ns = appended = 0
    for number, request in enumerate(requests):
        name = f"live{number}"
        sized.index.start(name, _TENANT, request.prompt[-_PROMPT_TOKENS:])
        answer: list[int] = request.answer.tolist()
        new = answer[:1]
        at = 1
        for _ in range(_STEPS):
            began = time.perf_counter_ns()
            sized.index.extend(name, new)
            append_ns += time.perf_counter_ns() - began
            appended += len(new)
            if at >= len(answer):
                break
            began = time.perf_counter_ns()
            tokens = sized.index.propose(name, 24).tokens
            propose_ns.append(time.perf_counter_ns() - began)
            accepted = accepted_of(tokens, answer[at : at + len(tokens)])
            sized.accepted += accepted
            sized.drafted += len(tokens)
            sized.steps += 1
            new = answer[at : at + accepted + 1]
            at += accepted + 1
        sized.index.finish(name, keep=False)
    sized.propose_p50.append(float(np.median(propose_ns)))
    sized.append_mean.append(append_ns / appended)
    sized.every += propose_ns


def _trim() -> None:
    """Return free memory to the system, so that it is not counted as the index's."""
    ctypes.CDLL(None).malloc_trim(0)


def _free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return 0
