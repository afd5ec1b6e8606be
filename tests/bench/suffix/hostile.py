"""Our index against texts that are meant to be slow."""

import statistics
import time
from collections.abc import Mapping

import numpy as np

from engine.suffix import SuffixIndex
from tests.bench.suffix.datasets import Tokens
from tests.bench.suffix.replay import Json
from tests.bench.suffix.texts import hostile_texts
from tests.bench.suffix.worker import DataSets, Factory

_TENANT = "bench"
_CAPACITY_BYTES = 256 << 20
_PROMPT_TOKENS = 1000
_ANSWERS = 4  # a text is written as so many answers, so that the older text is hostile too
_MOST_TOKENS = 64
_LONG_EXTEND = 8
_TIMER_READINGS = 100_000


def measure_hostile(_: Factory, __: DataSets, arguments: Mapping[str, object]) -> Json:
    """The 99.9th percentiles of single calls: the median of several runs of each text."""
    tokens, repeats, every, salt = (arguments[k] for k in ("tokens", "repeats", "every", "salt"))
    assert isinstance(tokens, int)
    assert isinstance(repeats, int)
    assert isinstance(every, int)
    assert isinstance(salt, int)
    texts = hostile_texts(tokens, salt=salt, seed=salt)
    found: dict[str, dict[str, float]] = {}
    for name, text in texts.items():
        runs = [_measure(text, every=every, salt=salt) for _ in range(repeats)]
        found[name] = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    worst = {key: max(text[key] for text in found.values()) for key in next(iter(found.values()))}
    return {"worst": worst, "texts": found, "tokens": tokens, "repeats": repeats, **_timer()}


def _measure(text: Tokens, *, every: int, salt: int) -> dict[str, float]:
    ones = _Run(salt)
    prompt_ns = 0
    for number, part in enumerate(np.array_split(text, _ANSWERS)):
        prompt_ns += ones.write(f"one{number}", part, length=1, every=every)
    eights = _Run(salt)
    for number, part in enumerate(np.array_split(text, _ANSWERS)):
        eights.write(f"eight{number}", part, length=_LONG_EXTEND, every=every)
    return {
        "propose_p999_us": _p999(ones.propose_ns),
        "propose_default_p999_us": _p999(ones.default_ns),
        "propose_p50_us": float(np.median(ones.propose_ns)) / 1000,
        "extend_p999_us_per_token": _p999(ones.extend_ns),
        "extend_mean_us_per_token": float(np.mean(ones.extend_ns)) / 1000,
        "extend_of_8_p999_us_per_token": _p999(eights.extend_ns) / _LONG_EXTEND,
        "finish_us_per_token": ones.finish_ns / len(text) / 1000,
        "prompt_us_per_token": prompt_ns / (_ANSWERS * _PROMPT_TOKENS) / 1000,
    }


class _Run:
    """An index and the times of single calls to it."""

    def __init__(self, salt: int) -> None:
        self._index = SuffixIndex(_CAPACITY_BYTES, salt=salt)
        self.extend_ns: list[int] = []
        self.propose_ns: list[int] = []
        self.default_ns: list[int] = []
        self.finish_ns = 0

    def write(self, name: str, text: Tokens, *, length: int, every: int) -> int:
        """Write a text as one answer; return the time that its prompt took."""
        index, clock = self._index, time.perf_counter_ns
        began = clock()
        index.start(name, _TENANT, text[:_PROMPT_TOKENS])
        prompt_ns = clock() - began
        tokens: list[int] = text[_PROMPT_TOKENS:].tolist()
        for step, at in enumerate(range(0, len(tokens) - length + 1, length)):
            new = tokens[at : at + length]
            began = clock()
            index.extend(name, new)
            self.extend_ns.append(clock() - began)
            if step % every:
                continue
            # Asked twice for the same place, the second time everything is in the cache; so the
            # two take turns in being first.
            if step // every % 2:
                self._propose_default(name)
                self._propose_all(name)
            else:
                self._propose_all(name)
                self._propose_default(name)
        began = clock()
        index.finish(name, keep=True)
        self.finish_ns += clock() - began
        return prompt_ns

    def _propose_all(self, name: str) -> None:
        began = time.perf_counter_ns()
        _ = self._index.propose(name, _MOST_TOKENS, min_survival=0.0).tokens
        self.propose_ns.append(time.perf_counter_ns() - began)

    def _propose_default(self, name: str) -> None:
        began = time.perf_counter_ns()
        _ = self._index.propose(name, _MOST_TOKENS).tokens
        self.default_ns.append(time.perf_counter_ns() - began)


def _p999(values: list[int]) -> float:
    return float(np.percentile(np.array(values), 99.9)) / 1000


def _timer() -> Json:
    clock = time.perf_counter_ns
    readings = np.array([-(clock() - clock()) for _ in range(_TIMER_READINGS)])
    p50, p999 = np.percentile(readings, [50, 99.9])
    return {"timer_p50_us": float(p50) / 1000, "timer_p999_us": float(p999) / 1000}
