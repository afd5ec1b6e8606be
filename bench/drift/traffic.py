"""A worker that answers one kind of prompts after the other, and records its answers."""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from bench.drift.prompts import prompts_of
from bench.suffix.corpus import CONFIG
from engine.traffic import AdaptFolder, list_segments, tokens_of
from loadtest.processes import ChildProcess, Command
from loadtest.progress import say

_ROOT = Path(__file__).parents[2]
_CLIENTS = 24
_ANSWER_TOKENS = 200
_NEVER = 1_000_000_000
"""Tokens from one training to the next: the replay trains, not the worker."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the worker recorded.

    Attributes:
        folder: Where it is.
        until: Name of the last segment of each kind, in the order of the workload.
    """

    folder: AdaptFolder
    until: Mapping[str, str]


async def record(root: Path, *, tokens: Mapping[str, int]) -> Recorded:
    """Have a worker write answers of each kind, as far as they are not there already.

    Args:
        root: Folder for the recorded traffic; kept, so that an interrupted run goes on.
        tokens: Answer tokens of each kind, in the order of the workload.

    Raises:
        StartError: The worker did not start.
        httpx.HTTPError: A request failed.
    """
    folder, until = AdaptFolder(root / "adapt"), dict[str, str]()
    notes = root / "kinds.yaml"
    if notes.exists():
        until = yaml.safe_load(notes.read_text(encoding="utf-8"))
    if len(until) == len(tokens):
        return Recorded(folder, until)
    with tempfile.TemporaryDirectory(prefix="sg-drift-") as short:
        worker = worker_on(Path(short), folder.root)
        await worker.start()
        try:
            async with client_of(Path(short)) as client:
                for kind, most in tokens.items():
                    if kind not in until:
                        begin = max(until.values(), default="")
                        await _answer(client, kind, folder, most, after=begin)
                        until[kind] = list_segments(folder.segments(0))[-1].name
                        notes.write_text(yaml.safe_dump(until, sort_keys=False), encoding="utf-8")
        finally:
            await worker.stop()
    return Recorded(folder, until)


async def _answer(
    client: httpx.AsyncClient, kind: str, folder: AdaptFolder, tokens: int, *, after: str
) -> None:
    """Send prompts of a kind until that many answer tokens follow a segment."""
    prompts = prompts_of(kind)

    async def ask() -> None:
        while _held(folder, after) < tokens:
            prompt, temperature, seed = next(prompts)
            body: dict[str, Any] = {
                "messages": [{"role": "user", "content": prompt}],
                "max_tokens": _ANSWER_TOKENS,
                "temperature": temperature,
                # A prompt that returns is read again, so that its states are recorded.
                "vllm_xargs": {"specgate_tenant": "bench", "specgate_adapt": 1},
                "cache_salt": f"{kind}-{seed}",
            }
            answer = await client.post("/v1/chat/completions", json=body)
            answer.raise_for_status()

    asking = [asyncio.create_task(ask()) for _ in range(_CLIENTS)]
    while not all(task.done() for task in asking):
        await asyncio.wait(asking, timeout=20)
        say(f"{kind}: {_held(folder, after)} of {tokens} tokens")
    await asyncio.gather(*asking)
    await asyncio.sleep(1.0)  # the last segments are being stored


def _held(folder: AdaptFolder, after: str) -> int:
    return sum(tokens_of(one) for one in list_segments(folder.segments(0)) if one.name > after)


def client_of(short: Path) -> httpx.AsyncClient:
    """Return a client of the worker in this folder (`worker_on`)."""
    return httpx.AsyncClient(
        # The worker closes a connection that was idle for 5 s.
        transport=httpx.AsyncHTTPTransport(
            uds=str(short / "s"), limits=httpx.Limits(keepalive_expiry=1.0)
        ),
        base_url="http://worker",
        timeout=600.0,
    )


def worker_on(short: Path, folder: Path, *, threads: int | None = None) -> ChildProcess:
    """Return a worker that records, to be started; it listens on `s` in a folder.

    Args:
        short: A folder with a short path.
        folder: Where it records.
        threads: Of the model; as many as there are cores if None.
    """
    profile = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    engine = profile["engine"]
    engine["vllm"]["max_num_seqs"] = _CLIENTS
    engine["vllm"]["max_model_len"] = 1024
    engine["speculation"]["head"]["adapt"] = {"folder": str(folder), "every_tokens": _NEVER}
    path = short / "profile.yaml"
    path.write_text(yaml.safe_dump({"engine": engine}), encoding="utf-8")
    return ChildProcess(
        Command(
            name="worker",
            arguments=(
                *(sys.executable, "-m", "engine", "--config", str(path)),
                *("--uds", str(short / "s"), "--die-with-parent"),
            ),
            ready_url="http://worker/health",
            start_seconds=300.0,
            environment={} if threads is None else {"OMP_NUM_THREADS": str(threads)},
            stop_seconds=30.0,
            ready_socket=short / "s",
            folder=_ROOT,
        ),
        log=short / "worker.log",
    )
