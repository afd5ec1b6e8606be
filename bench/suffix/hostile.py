"""Our index against texts that are meant to be slow."""

import statistics
import time
from collections.abc import Mapping, Sequence

import numpy as np

from bench.rounds import Json
from bench.suffix.datasets import Tokens
from bench.suffix.texts import hostile_texts
from bench.suffix.worker import DataSets, Factory
from engine.suffix import SuffixIndex

_TENANT = "bench"
_CAPACITY_BYTES = 256 << 20
_PROMPT_TOKENS = 1000
_ANSWERS = 4  # a text is written as so many answers, so that the older text is hostile too
_MOST_TOKENS = 64
_LONG_EXTEND = 8
_TIMER_READINGS = 100_000


def measure_hostile(_: Factory, __: DataSets, arguments: Mapping[str, object]) -> Json:
    """Percentiles of single calls; each text is written several times in the same way."""
    tokens, repeats, every, salt = (arguments[k] for k in ("tokens", "repeats", "every", "salt"))
    assert isinstance(tokens, int)
    assert isinstance(repeats, int)
    assert isinstance(every, int)
    assert isinstance(salt, int)
    texts = hostile_texts(tokens, salt=salt, seed=salt)
    found: dict[str, dict[str, float]] = {}
    for name, text in texts.items():
        runs = [_write(text, every=every, salt=salt) for _ in range(repeats)]
        found[name] = _summary(runs, len(text))
    worst = {key: max(text[key] for text in found.values()) for key in next(iter(found.values()))}
    return {"worst": worst, "texts": found, "tokens": tokens, "repeats": repeats, **_timer()}


def _write(text: Tokens, *, every: int, salt: int) -> "_Run":
    run = _Run(salt)
    for number, part in enumerate(np.array_split(text, _ANSWERS)):
        run.write(f"slow{number}", part, every=every)
    for number, part in enumerate(np.array_split(text, _ANSWERS)):
        run.write_fast(f"fast{number}", part)
    return run


def _summary(runs: Sequence["_Run"], tokens: int) -> dict[str, float]:
    found = {}
    kinds = (
        ("propose{}_us", [run.propose_ns for run in runs], 1),
        ("propose_default{}_us", [run.default_ns for run in runs], 1),
        ("extend{}_us_per_token", [run.extend_ns for run in runs], 1),
        ("extend_of_8{}_us_per_token", [run.long_extend_ns for run in runs], _LONG_EXTEND),
    )
    for key, readings, parts in kinds:
        microseconds = np.array(readings) / 1000 / parts
        calls = np.median(microseconds, axis=0)  # the same call does the same work in each repeat
        found[key.format("_p50")] = float(np.median(calls))
        found[key.format("_p999")] = float(np.percentile(calls, 99.9))
        plain = np.percentile(microseconds, 99.9, axis=1)
        found[key.format("_p999_wall")] = float(np.median(plain))
    for key, spent, count in (
        ("finish_us_per_token", [run.finish_ns for run in runs], 2 * tokens),
        ("prompt_us_per_token", [run.prompt_ns for run in runs], 2 * _ANSWERS * _PROMPT_TOKENS),
    ):
        found[key] = statistics.median(spent) / count / 1000
    return found


class _Run:
    """One writing of a text: the times of single calls, in the order of the calls."""

    def __init__(self, salt: int) -> None:
        self._index = SuffixIndex(_CAPACITY_BYTES, salt=salt)
        self.extend_ns: list[int] = []
        self.long_extend_ns: list[int] = []
        self.propose_ns: list[int] = []
        self.default_ns: list[int] = []
        self.prompt_ns = 0
        self.finish_ns = 0

    def write(self, name: str, text: Tokens, *, every: int) -> None:
        """Write a text token by token, and draft at one step in `every`."""
        tokens = self._start(name, text)
        for step, token in enumerate(tokens):
            new = [token]
            began = time.perf_counter_ns()
            self._index.extend(name, new)
            self.extend_ns.append(time.perf_counter_ns() - began)
            if step % every:
                continue
            # The second of two drafts for one place finds everything in the cache; so they take
            # turns in being first.
            if step // every % 2:
                self._propose_default(name)
                self._propose_all(name)
            else:
                self._propose_all(name)
                self._propose_default(name)
        self._finish(name)

    def write_fast(self, name: str, text: Tokens) -> None:
        """Write a text several tokens at a time."""
        tokens = self._start(name, text)
        for at in range(0, len(tokens) - _LONG_EXTEND + 1, _LONG_EXTEND):
            new = tokens[at : at + _LONG_EXTEND]
            began = time.perf_counter_ns()
            self._index.extend(name, new)
            self.long_extend_ns.append(time.perf_counter_ns() - began)
        self._finish(name)

    def _start(self, name: str, text: Tokens) -> list[int]:
        began = time.perf_counter_ns()
        self._index.start(name, _TENANT, text[:_PROMPT_TOKENS])
        self.prompt_ns += time.perf_counter_ns() - began
        tokens: list[int] = text[_PROMPT_TOKENS:].tolist()
        return tokens

    def _finish(self, name: str) -> None:
        began = time.perf_counter_ns()
        self._index.finish(name, keep=True)
        self.finish_ns += time.perf_counter_ns() - began

    def _propose_all(self, name: str) -> None:
        began = time.perf_counter_ns()
        _ = self._index.propose(name, _MOST_TOKENS, min_survival=0.0).tokens
        self.propose_ns.append(time.perf_counter_ns() - began)

    def _propose_default(self, name: str) -> None:
        began = time.perf_counter_ns()
        _ = self._index.propose(name, _MOST_TOKENS).tokens
        self.default_ns.append(time.perf_counter_ns() - began)


def _timer() -> Json:
    clock = time.perf_counter_ns
    readings = np.array([-(clock() - clock()) for _ in range(_TIMER_READINGS)])
    p50, p999 = np.percentile(readings, [50, 99.9])
    return {"timer_p50_us": float(p50) / 1000, "timer_p999_us": float(p999) / 1000}
