"""The commands of both sides: one JSON object per line in, one out, until the input ends."""

import gc
import json
import os
import resource
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import numpy as np

from bench.rounds import Json
from bench.suffix.datasets import DataSet, Request, Tokens, document_of, load_saved
from bench.suffix.replay import Subject, accepted_of, distribution, replay

Setting = Mapping[str, float]

_ANSWER_PART = 256  # tokens of a document that are added at once
_ROWS_STEPS = 400


class BatchSubject(Subject, Protocol):
    """A subject that can also draft for a whole batch, and report its memory."""

    def propose_rows(
        self, names: Sequence[str], texts: Sequence[tuple[Tokens, int]]
    ) -> list[list[int]]:
        """Draft for each sequence as `propose` does, by the fastest call there is."""

    def claimed_bytes(self) -> int:
        """Memory in use, as the index itself counts it."""


_CORPORA: Mapping[str, Callable[[DataSet], list[Tokens]]] = {
    "answers": lambda dataset: [request.answer for request in dataset.requests],
    "conversations": lambda dataset: dataset.documents,
    "requests": lambda dataset: [document_of([request]) for request in dataset.requests],
}

Factory = Callable[[Setting], BatchSubject]
DataSets = Mapping[str, DataSet]
Command = Callable[[Factory, DataSets, Mapping[str, object]], Json]


def replay_sets(factory: Factory, datasets: DataSets, arguments: Mapping[str, object]) -> Json:
    """Replay every set named in `settings`, each with a fresh index of that setting."""
    settings = arguments["settings"]
    assert isinstance(settings, dict)
    sets: Json = {}
    every: list[int] = []
    for name, setting in settings.items():
        figures, propose_ns = replay(factory(setting), datasets[name].requests)
        every += propose_ns
        sets[name] = asdict(figures)
    return {"sets": sets, "propose_ns": distribution(every)}


def measure_memory(factory: Factory, datasets: DataSets, arguments: Mapping[str, object]) -> Json:
    """Store texts as answers; `corpus` names which."""
    corpus = _CORPORA[str(arguments["corpus"])]
    texts = [text for dataset in datasets.values() for text in corpus(dataset)]
    texts = [text.copy() for text in texts]  # here now, so not taken for the index's memory
    subject = factory(_setting(arguments))
    keep(subject, "warm", texts[0][:_ANSWER_PART])
    before = resident_bytes()
    for number, text in enumerate(texts):
        keep(subject, f"d{number}", text)
    tokens = sum(len(text) for text in texts)
    return {
        "tokens": tokens,
        "resident_bytes": resident_bytes() - before,
        "claimed_bytes": subject.claimed_bytes(),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def time_prompt(factory: Factory, datasets: DataSets, arguments: Mapping[str, object]) -> Json:
    """Start requests with one long prompt of real text, in an index that already holds text."""
    length = arguments["tokens"]
    times = arguments["times"]
    assert isinstance(length, int)
    assert isinstance(times, int)
    subject = factory(_setting(arguments))
    documents = [text for dataset in edits_first(datasets) for text in dataset.documents]
    prompt = np.concatenate(documents)
    prompt = np.ascontiguousarray(np.resize(prompt, length))  # repeats itself if it is too short
    for number, text in enumerate(documents[:50]):
        keep(subject, f"d{number}", text)
    spent = []
    for number in range(times):
        began = time.perf_counter_ns()
        subject.start(f"p{number}", prompt)
        spent.append(time.perf_counter_ns() - began)
        subject.append(f"p{number}", [1])
        subject.finish(f"p{number}")
    return {"tokens": length, "first_ns": spent[0], "start_ns": distribution(spent)}


def time_rows(factory: Factory, datasets: DataSets, arguments: Mapping[str, object]) -> Json:
    """Draft for many live requests per step; when one ends, the next one starts."""
    rows = arguments["rows"]
    assert isinstance(rows, int)
    subject = factory(_setting(arguments))
    requests = _interleaved(datasets)
    waiting = deque(requests * (1 + 4 * rows // len(requests)))  # again and again if they are few
    live: list[_Row] = []
    spent = []
    for _ in range(_ROWS_STEPS):
        while len(live) < rows and waiting:
            live.append(_Row(subject, f"r{len(waiting)}", waiting.popleft()))
        if len(live) < rows:
            break
        names = [row.name for row in live]
        texts = [(row.text, row.end) for row in live]
        began = time.perf_counter_ns()
        drafts = subject.propose_rows(names, texts)
        spent.append((time.perf_counter_ns() - began) // rows)
        for row, draft in zip(live, drafts, strict=True):
            row.advance(subject, draft)
        live = [row for row in live if row.is_live]
    return {"rows": rows, "row_ns": distribution(spent)}


COMMANDS: Mapping[str, Command] = {
    "replay": replay_sets,
    "memory": measure_memory,
    "prompt": time_prompt,
    "rows": time_rows,
}


def keep(subject: Subject, name: str, text: Tokens) -> None:
    """Store a text as if it were an answer."""
    subject.start(name, text[:1])
    for at in range(1, len(text), _ANSWER_PART):
        subject.append(name, text[at : at + _ANSWER_PART].tolist())
    subject.finish(name)


def edits_first(datasets: DataSets) -> list[DataSet]:
    """Agent and edit sets before the others: the longest texts."""
    return sorted(datasets.values(), key=lambda dataset: not dataset.is_edit)


def resident_bytes() -> int:
    """Resident memory of this process now."""
    # Source: proc(5), statm: the second field is the resident set, in pages.
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def serve(tokens: str, factory: Factory, commands: Mapping[str, Command]) -> int:
    """Answer until the input ends; a failure is reported as an answer."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not be taken for an answer
    datasets = load_saved(Path(tokens))
    gc.disable()  # a collection would be taken for a slow call
    for line in sys.stdin:
        gc.collect()
        arguments = json.loads(line)
        found: Json = {}
        try:
            found["found"] = commands[arguments["command"]](factory, datasets, arguments)
        except Exception:  # noqa: BLE001 - the parent reports it, whatever it is
            found["error"] = traceback.format_exc()
        answers.write(json.dumps(found) + "\n")
        answers.flush()
    return 0


class _Row:
    """A live request among others."""

    def __init__(self, subject: Subject, name: str, request: Request) -> None:
        self.name = name
        self.text = np.concatenate([request.prompt, request.answer])
        self.end = len(request.prompt) + 1
        self.is_live = True
        subject.start(name, request.prompt)
        subject.append(name, request.answer[:1].tolist())

    def advance(self, subject: Subject, draft: list[int]) -> None:
        truth = self.text[self.end : self.end + len(draft)].tolist()
        new = self.text[self.end : self.end + accepted_of(draft, truth) + 1].tolist()
        if new:
            subject.append(self.name, new)
        self.end += len(new)
        if self.end >= len(self.text):
            self.is_live = False
            subject.finish(self.name)


def _interleaved(datasets: DataSets) -> list[Request]:
    # Every set is spread over the whole list.
    placed = [
        (place / len(dataset.requests), request)
        for dataset in datasets.values()
        for place, request in enumerate(dataset.requests)
    ]
    return [request for _, request in sorted(placed, key=lambda pair: pair[0])]


def _setting(arguments: Mapping[str, object]) -> Setting:
    setting = arguments["setting"]
    assert isinstance(setting, dict)
    return setting
