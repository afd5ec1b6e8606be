"""The JSON line of the engine benchmark: ratios by batch, workload and method."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from bench.engine.counts import Counts, acceptance_ratio, pooled
from bench.engine.measure import BatchFigures
from bench.engine.methods import HYBRID, NONE
from bench.rounds import Json, put_summary, ratios_of, summary_of

DEFINITIONS = {
    "methods": "all have our kernels except `vllm`, which is unmodified vLLM; `none` drafts "
    "nothing, so ratios to it are the gain of drafting",
    "tokens_per_second": "output tokens of all clients over the time from the first request to the "
    "last answer, prompts included; median over rounds",
    "ratios": "tokens a second over those of `none` in the same round; median and [min, max] over "
    "rounds. Every round has other prompts, so a spread holds their differences too",
    "decoding_ratios": "the same of a request's tokens a second from its first token on: without "
    "prefill, which drafts cannot shorten",
    "hybrid_to": "the same as `ratios`, of hybrid over each other method",
    "acceptance": "length: tokens a step that verified a draft, bonus included; ratio: accepted "
    "over drafted; `sources`: by source, `vllm` being vLLM's own drafter; over all rounds",
    "steps": "share of a request's steps by the source whose draft they verified, the first where "
    "two drafted; plain: no draft",
    "own_cpu_us_per_step": "hybrid: mean CPU time of our own code a step of the whole batch, over "
    "all workloads",
    "creative": "temperature 1, no seed, so every method samples other texts; `ignore_eos` makes "
    "them equally long. vLLM 0.32's verification on CPUs, which ours corrects, rejects nearly all "
    "drafts of vLLM's own drafters here",
    "batch": "clients at once; with n of them `max_tokens` and the turns of a session are divided "
    "by the square root of n",
    "left_out": "workloads of a quick run for which there was no time; [] if none",
    "idle_cores": "largest CPU use, in cores, of all workers that were not being measured",
}

Rounds = Sequence[Counts]
ByMethod = Mapping[str, Rounds]
Speed = Callable[[Counts], float]


def _end_to_end(counts: Counts) -> float:
    return counts.tokens_per_second


def report(figures: Mapping[int, BatchFigures], same: Mapping[str, str]) -> Json:
    """Compute every figure.

    Args:
        figures: By batch size.
        same: Methods that share another one's worker, and so its figures.
    """
    batches = {
        str(batch): {
            workload: _with_same(methods, same) for workload, methods in found.counts.items()
        }
        for batch, found in figures.items()
    }
    return {
        "bench": "engine",
        "ratios": _each(batches, _ratios),
        "decoding_ratios": _each(batches, _decoding_ratios),
        "hybrid_to": _each(batches, _hybrid_to),
        "acceptance": _each(batches, lambda m: _by_method(m, _acceptance)),
        "steps": _each(batches, lambda m: _by_method(m, _steps)),
        "tokens_per_second": _each(batches, lambda m: _by_method(m, _speed)),
        "own_cpu_us_per_step": {
            batch: _own_time(
                [methods[HYBRID] for methods in workloads.values() if HYBRID in methods]
            )
            for batch, workloads in batches.items()
        },
        "own_cpu_us_per_step_by_workload": _each(
            batches, lambda m: _own_time([m[HYBRID]]) if HYBRID in m else None
        ),
        "sessions": {str(batch): found.sessions for batch, found in figures.items()},
        "requests": _each(batches, lambda m: pooled(next(iter(m.values()))).requests),
        "left_out": {str(batch): found.left_out for batch, found in figures.items()},
        "idle_cores": {str(batch): found.idle_cores for batch, found in figures.items()},
        "measured_once": dict(same),
        "definitions": DEFINITIONS,
    }


def _with_same(methods: ByMethod, same: Mapping[str, str]) -> ByMethod:
    shared = {name: methods[other] for name, other in same.items() if other in methods}
    return {**methods, **shared}


def _each(
    batches: Mapping[str, Mapping[str, ByMethod]], figure: Callable[[ByMethod], object]
) -> Json:
    return {
        batch: {workload: figure(methods) for workload, methods in workloads.items()}
        for batch, workloads in batches.items()
    }


def _by_method(methods: ByMethod, figure: Callable[[Rounds], object]) -> Json:
    return {name: figure(rounds) for name, rounds in methods.items()}


def _ratios(methods: ByMethod, speed: Speed = _end_to_end) -> Json:
    found: Json = {}
    for name, rounds in methods.items():
        if NONE in methods:
            _put_ratio(found, name, rounds, methods[NONE], speed)
    return found


def _decoding_ratios(methods: ByMethod) -> Json:
    return _ratios(methods, lambda counts: counts.decoded_per_second)


def _hybrid_to(methods: ByMethod) -> Json:
    found: Json = {}
    for name, rounds in methods.items():
        if name != HYBRID and HYBRID in methods:
            _put_ratio(found, name, methods[HYBRID], rounds, _end_to_end)
    return found


def _put_ratio(found: Json, name: str, ours: Rounds, theirs: Rounds, speed: Speed) -> None:
    ratios = ratios_of([speed(counts) for counts in ours], [speed(counts) for counts in theirs])
    put_summary(found, name, summary_of(ratios))


def _speed(rounds: Rounds) -> float:
    return statistics.median(counts.tokens_per_second for counts in rounds)


def _acceptance(rounds: Rounds) -> Json:
    total = pooled(rounds)
    sources = {
        name: {
            "drafted": count,
            "accepted": total.accepted[name],
            "ratio": acceptance_ratio(total.accepted[name], count),
        }
        for name, count in total.drafted.items()
    }
    return {"length": total.length, "ratio": total.ratio, "sources": sources}


def _steps(rounds: Rounds) -> Json:
    steps = pooled(rounds).steps
    return {name: count / steps.total() for name, count in steps.items()}


def _own_time(rounds: Sequence[Rounds]) -> float | None:
    return pooled([counts for one in rounds for counts in one]).own_us_per_step
