import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from bench.gpu.__main__ import Part, Results, report, run, table_of
from bench.gpu.parts import (
    Method,
    RunError,
    SkipError,
    methods_of,
    read_prompts,
    requests_of,
)
from bench.rounds import Json
from engine.config import load_settings

ROOT = Path(__file__).parents[4]


def part(found: Json | Exception, calls: list[str], name: str) -> Part:
    async def ran() -> Json:
        calls.append(name)
        if isinstance(found, Exception):
            raise found
        return found

    return ran


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    calls: list[str] = []
    results = Results(tmp_path)
    parts = {
        "one": part({"x": 1}, calls, "one"),
        "two": part(SkipError("no GPU"), calls, "two"),
        "three": part(RunError("broken"), calls, "three"),
    }

    first = asyncio.run(run(parts, results, seconds=10))
    second = asyncio.run(run(parts, results, seconds=10))

    assert first == {"one": "done", "two": "skipped: no GPU", "three": "failed: broken"}
    assert second == {**first, "one": "done before"}
    assert calls == ["one", "two", "three", "two", "three"]
    assert results.load("one") == {"x": 1}


def test_parts_end_with_the_time(tmp_path: Path) -> None:
    async def slow() -> Json:
        await asyncio.sleep(10)
        return {}

    calls: list[str] = []
    parts = {"slow": slow, "late": part({}, calls, "late")}

    became = asyncio.run(run(parts, Results(tmp_path), seconds=0.05))

    assert became == {"slow": "failed: TimeoutError", "late": "left out: no time left"}
    assert calls == []


def test_results_can_be_forgotten(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.save("one", {})

    results.forget()

    assert results.load("one") is None


def served(speed: float, *tokens: list[int]) -> dict[str, Any]:
    return {
        "texts": list(tokens),
        "gaps": [[1.0] * len(text) for text in tokens],
        "tokens_per_second": {"1": speed},
        "syncs": {"a_step": 1.0},
        "dispatch": {"steps": 0},
    }


def test_methods_are_compared_with_vllm_alone(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.save("vllm", served(50.0, [1, 2], [3]))
    results.save("hybrid", served(150.0, [1, 2], [4]))

    found = report(["vllm", "hybrid"], results, {"hybrid": "done"})

    hybrid = found["methods"]["hybrid"]
    assert hybrid["over_vllm"] == {"1": 3.0}
    assert hybrid["identity"] == {"texts": 2, "equal": 1, "near_ties": 0, "defects": 1}
    assert "texts" not in hybrid
    assert "1+0-1" in table_of(found)


def test_without_vllm_alone_nothing_is_compared(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.save("hybrid", served(150.0, [1]))

    found = report(["vllm", "hybrid"], results, {})

    assert "identity" not in found["methods"]["hybrid"]
    assert "hybrid" in table_of(found)


def test_an_eagle_head_adds_methods(tmp_path: Path) -> None:
    settings = load_settings(ROOT / "configs/gpu-llama-3.1-8b.yaml")

    without = methods_of(settings, None)
    with_head = methods_of(settings, tmp_path)

    assert [method.name for method in without] == ["vllm", "ngram", "suffix", "hybrid", "ahead"]
    assert [method.name for method in with_head if method not in without] == [
        "eagle", "hybrid", "ahead",
    ]  # fmt: skip
    assert _sources_of(with_head, "hybrid") == ["suffix", "native"]
    assert _sources_of(without, "hybrid") == ["suffix"]


def test_every_step_of_one_method_is_launched_ahead() -> None:
    methods = methods_of(load_settings(ROOT / "configs/gpu-llama-3.1-8b.yaml"), None)

    ahead = _speculation_of(methods, "ahead")

    assert ahead == {**_speculation_of(methods, "hybrid"), "launch": "ahead"}


def _speculation_of(methods: Sequence[Method], name: str) -> Mapping[str, JsonValue]:
    (found,) = [method.speculation for method in methods if method.name == name]
    assert found is not None
    return found


def _sources_of(methods: Sequence[Method], name: str) -> JsonValue:
    return _speculation_of(methods, name)["sources"]


def test_there_are_prompts_for_all() -> None:
    prompts = read_prompts()

    assert len(set(prompts)) == len(prompts)
    assert len(prompts) >= 100 + sum(map(requests_of, (1, 8, 64)))
