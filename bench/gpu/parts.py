"""The parts of the check, and what each measures."""

import asyncio
import importlib.util
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from bench.gpu.judge import Text, compare, read_dispatch
from bench.gpu.server import Server
from bench.rounds import Json
from engine.config import EngineSettings
from loadtest.processes import RunError, run_to_end

_ROOT = Path(__file__).parents[2]
_IDENTITY_PROMPTS, _IDENTITY_TOKENS, _IDENTITY_CLIENTS = 100, 48, 16
_SPEED_TOKENS = 128
_TRACED_REQUESTS, _TRACED_TOKENS, _CLIENTS_OF_TRACE = 8, 24, 8
_TEST_SECONDS = 120.0
TESTS = "tests"
VLLM = "vllm"


class SkipError(Exception):
    """A part cannot run here; the message says why."""


@dataclass(frozen=True, slots=True)
class Method:
    """A way to serve.

    Attributes:
        name: Its part of the check.
        speculation: The section of our settings; None for vLLM alone.
        baseline: vLLM's `speculative_config`, for vLLM alone.
    """

    name: str
    speculation: Mapping[str, JsonValue] | None = None
    baseline: Mapping[str, JsonValue] | None = None


def methods_of(settings: EngineSettings, eagle: Path | None) -> Sequence[Method]:
    """Return vLLM alone, its drafters, and ours; with EAGLE if there is a head.

    Args:
        settings: Of the profile; its sources are what `hybrid` has.
        eagle: The folder of an EAGLE-3 head.
    """
    ngram: dict[str, JsonValue] = {
        "method": "ngram_gpu",
        "num_speculative_tokens": 4,
        "prompt_lookup_max": 4,
    }
    profile = settings.speculation.model_dump(mode="json")
    cold: dict[str, JsonValue] = {**profile, "suffix": {**profile["suffix"], "warm_start": False}}
    sources: list[JsonValue] = list(settings.speculation.sources)
    found = [
        Method(VLLM, baseline={}),
        Method("ngram", baseline={**ngram, "prompt_lookup_min": 2}),
        Method("suffix", speculation={**cold, "sources": ["suffix"], "native": None}),
    ]
    if eagle is not None:
        head: dict[str, JsonValue] = {
            "method": "eagle3",
            "model": str(eagle),
            "num_speculative_tokens": 3,
        }
        found.append(Method("eagle", baseline=head))
        cold["native"] = {"config": head}
        sources.append("native")
    hybrid = {**cold, "sources": sources}
    return [
        *found,
        Method("hybrid", speculation=hybrid),
        # The order of streams matters most where no step waits for the tokens of the last one.
        Method("ahead", speculation={**hybrid, "launch": "ahead"}),
    ]


def requests_of(clients: int) -> int:
    """Return how many requests are measured: a few for each client, so that all are busy."""
    return max(6, 2 * clients)


def read_prompts() -> list[str]:
    """Return prompts that need no network: the beginnings of this project's own paragraphs."""
    paragraphs = [
        text
        for page in sorted((_ROOT / "docs").rglob("*.md"))
        for text in page.read_text("utf-8").split("\n\n")
        if len(text) > 240 and not text.startswith(("|", "<!--"))
    ]
    return [text[: len(text) * 2 // 3] for text in paragraphs]


async def run_tests() -> Json:
    """Run the tests that need CUDA.

    Raises:
        SkipError: There is no GPU, or no pytest.
        RunError: One failed, or they took too long.
    """
    import torch

    if not torch.cuda.is_available():
        raise SkipError("no CUDA device")
    if importlib.util.find_spec("pytest") is None:
        raise SkipError("pytest is not installed")
    files = [
        str(path.relative_to(_ROOT))
        for path in sorted((_ROOT / "tests/unit").rglob("test_*.py"))
        if "needs a CUDA device" in path.read_text("utf-8")
    ]
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files)
    output = await run_to_end(*command, seconds=_TEST_SECONDS)
    return {"files": len(files), "result": output.decode().strip().splitlines()[-1]}


async def run_method(
    method: Method,
    settings: EngineSettings,
    prompts: Sequence[str],
    clients: Sequence[int],
    results: Path,
) -> Json:
    """Serve with a method, and measure all that needs its server.

    Args:
        method: How to serve.
        settings: Of the profile.
        prompts: Each is sent once, apart from the first ones, whose texts are compared.
        clients: Numbers of clients for which the speed is measured.
        results: An absolute path; takes the log, and a trace.

    Raises:
        ServerError, StartError: The server did not do as it should.
    """
    engine = settings.model_dump(mode="json", exclude_none=True)
    engine["speculation"] = method.speculation or {"sources": []}
    with tempfile.TemporaryDirectory(prefix="sg-gpu-") as name:
        server = Server(method.name, engine, method.baseline, Path(name))
        began = time.monotonic()
        try:
            await server.start()
            found: Json = {"start_seconds": time.monotonic() - began}
            rest = iter(prompts[_IDENTITY_PROMPTS:])
            answers = await server.complete_all(
                prompts[:_IDENTITY_PROMPTS],
                _IDENTITY_CLIENTS,
                _IDENTITY_TOKENS,
                logprobs=2,
                return_token_ids=True,
                # Two tokens may have the same text, and the two likeliest are named by theirs.
                return_tokens_as_token_ids=True,
            )
            texts = [Text.read(answer) for answer in answers]
            found["texts"] = [list(text.tokens) for text in texts]
            found["gaps"] = [list(text.gaps) for text in texts]
            found["tokens_per_second"] = {}
            for count in clients:
                taken = list(islice(rest, requests_of(count)))
                began = time.monotonic()
                answers = await server.complete_all(taken, count, _SPEED_TOKENS, ignore_eos=True)
                tokens = sum(answer["usage"]["completion_tokens"] for answer in answers)
                found["tokens_per_second"][str(count)] = tokens / (time.monotonic() - began)
            found["syncs"] = await _count_syncs(server, prompts)
            found["trace"] = await _trace(server, prompts, results / f"{method.name}-trace.json.gz")
            await asyncio.sleep(3.0)  # for vLLM's last table
            found["dispatch"] = read_dispatch(server.log.read_text("utf-8").splitlines())
        finally:
            await server.stop()
            (results / f"{method.name}.log").write_bytes(server.log.read_bytes())
    return found


async def _count_syncs(server: Server, prompts: Sequence[str]) -> Json:
    await server.call("watch_syncs")
    await server.complete_all(prompts[:_TRACED_REQUESTS], _CLIENTS_OF_TRACE, _TRACED_TOKENS)
    counts = await server.call("syncs")
    return {**counts, "a_step": counts["syncs"] / max(1, counts["steps"])}


async def _trace(server: Server, prompts: Sequence[str], path: Path) -> str:
    await server.call("begin_trace")
    await server.complete_all(prompts[:_TRACED_REQUESTS], _CLIENTS_OF_TRACE, _TRACED_TOKENS)
    await server.call("end_trace", str(path))
    return path.name


def identity_of(plain: Mapping[str, Any], other: Mapping[str, Any]) -> Json:
    """Compare a method's texts with those of vLLM alone."""
    texts = [Text(*pair) for pair in zip(plain["texts"], plain["gaps"], strict=True)]
    return compare(texts, other["texts"])


__all__ = [
    "TESTS", "VLLM", "Method", "RunError", "SkipError", "identity_of", "methods_of", "read_prompts",
    "run_method", "run_tests",
]  # fmt: skip
