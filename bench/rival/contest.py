"""All servers, started once and asked in turn: each prompt goes to each of them once."""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import psutil

from bench.engine.idle import settle
from bench.engine.plan import CREATIVE_TEMPERATURE
from bench.engine.records import Ask, Pools
from bench.rival.llama import DRAFTS, server_command
from bench.rival.plan import KINDS, Plan
from bench.rounds import rotated
from loadtest.memory import family_bytes
from loadtest.processes import ChildProcess, free_port, start_child
from loadtest.progress import say
from loadtest.service import Settings, start_gateway

SPECGATE = "specgate"
_STOP_SECONDS = 30.0
_ANSWER_SECONDS = 600.0
_TEMPLATE_TOKENS = 64  # what a chat template adds, at most
_WARM_UP = Ask([{"role": "user", "content": "Count from one on."}], 24)


class AnswerError(Exception):
    """A server did not answer as it should; the message says what it said."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server of the contest.

    Attributes:
        url: Base URL.
        model: What requests call the model.
        start_seconds: From its start until it was ready.
    """

    name: str
    url: str
    model: str
    child: ChildProcess
    start_seconds: float


@dataclass(slots=True)
class Figures:
    """What was measured.

    Attributes:
        speeds: By kind and server, tokens a second of each answer, prompt included; the prompts are
            in one order for all servers.
        memory_bytes: By server, PSS of its processes after the last answer.
        start_seconds: By server.
        left_out: Kinds for which there was no time.
    """

    speeds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    memory_bytes: dict[str, int] = field(default_factory=dict)
    start_seconds: dict[str, float] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Files:
    """What the servers are made of.

    Attributes:
        profile: Of specgate.
        llama_server: The program.
        weights: The GGUF file that specgate's model was converted from.
    """

    profile: Settings
    llama_server: Path
    weights: Path


def prompts_of(pools: Pools, plan: Plan, *, most_tokens: int) -> Mapping[str, Sequence[Ask]]:
    """Choose the prompts of each kind; creative ones are further chats, sampled.

    Prompts that could exceed the model's length are left out: a token is at least a byte.

    Args:
        pools: By kind.
        most_tokens: A prompt with its answer may have.
    """
    room = most_tokens - plan.answer_tokens - _TEMPLATE_TOKENS
    left = {
        kind: iter([ask for ask, *_ in sessions if _bytes_of(ask) <= room])
        for kind, sessions in pools.items()
    }
    chosen: dict[str, list[Ask]] = {}
    for kind in KINDS:
        of_kind = left.get("chat" if kind == "creative" else kind, iter(()))
        asks = islice(of_kind, plan.prompts)
        chosen[kind] = [_shaped(ask, kind, plan.answer_tokens) for ask in asks]
    return {kind: asks for kind, asks in chosen.items() if asks}


async def contest(files: Files, prompts: Mapping[str, Sequence[Ask]], plan: Plan) -> Figures:
    """Start all servers and send each prompt to each of them, another one first each time.

    Raises:
        StartError: A server did not start.
        AnswerError: One did not answer.
    """
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="sg-rival-") as name:
        async with AsyncExitStack() as stack:
            servers = await _start(stack, files, Path(name))
            client = await stack.enter_async_context(httpx.AsyncClient(timeout=_ANSWER_SECONDS))
            for server in servers:
                await tokens_per_second(client, server, _WARM_UP)
            ends_at = time.monotonic() + plan.seconds
            for number in range(plan.prompts):
                for kind, asks in prompts.items():
                    if number >= len(asks):
                        continue
                    if time.monotonic() > ends_at:
                        figures.left_out.append(kind)
                        continue
                    await _ask_all(client, rotated(servers, number), asks[number], figures, kind)
            for server in servers:
                figures.memory_bytes[server.name] = family_bytes(psutil.Process(server.child.pid))
                figures.start_seconds[server.name] = server.start_seconds
    return figures


async def tokens_per_second(client: httpx.AsyncClient, server: Server, ask: Ask) -> float:
    """Send a request without streaming and return the answer's tokens over its whole time.

    Raises:
        AnswerError: It was not answered with 200.
    """
    body: dict[str, Any] = {
        "model": server.model,
        "messages": ask.messages,
        "max_tokens": ask.most_tokens,
        "temperature": ask.temperature,
    }
    began = time.perf_counter()
    try:
        response = await client.post(f"{server.url}/v1/chat/completions", json=body)
    except httpx.HTTPError as error:
        raise AnswerError(server.child.explained(repr(error))) from error
    seconds = time.perf_counter() - began
    if response.status_code != 200:
        raise AnswerError(f"{server.name}: {response.text[:400]}")
    return float(response.json()["usage"]["completion_tokens"]) / seconds


async def _ask_all(
    client: httpx.AsyncClient, servers: Sequence[Server], ask: Ask, figures: Figures, kind: str
) -> None:
    speeds = figures.speeds.setdefault(kind, {})
    for server in servers:
        await settle([each.child for each in servers])
        speeds.setdefault(server.name, []).append(await tokens_per_second(client, server, ask))
    say(f"{kind}: " + ", ".join(f"{name} {found[-1]:.0f}" for name, found in speeds.items()))


async def _start(stack: AsyncExitStack, files: Files, folder: Path) -> Sequence[Server]:
    engine = files.profile["engine"]
    port = free_port()
    profile = {
        **files.profile,
        "gateway": {**files.profile["gateway"], "port": port},
        "engine": {
            **engine,
            "speculation": {**engine["speculation"], "suffix": {"warm_start": False}},
        },
    }
    began = time.monotonic()
    gateway = await start_gateway(stack, folder, profile, stop_seconds=_STOP_SECONDS)
    took = time.monotonic() - began
    servers = [Server(SPECGATE, gateway.url, engine["model"], gateway.child, took)]
    for name in DRAFTS:
        port = free_port()
        command = server_command(
            files.llama_server,
            name,
            files.weights,
            port=port,
            threads=os.cpu_count() or 1,
            context=engine["vllm"]["max_model_len"],
        )
        began = time.monotonic()
        child = await start_child(stack, command, folder)
        took = time.monotonic() - began
        servers.append(Server(name, f"http://127.0.0.1:{port}", name, child, took))
    return servers


def _bytes_of(ask: Ask) -> int:
    return sum(len(message["content"].encode()) for message in ask.messages)


def _shaped(ask: Ask, kind: str, most_tokens: int) -> Ask:
    if kind != "creative":
        return replace(ask, most_tokens=most_tokens)
    return replace(ask, most_tokens=most_tokens, temperature=CREATIVE_TEMPERATURE, ignore_eos=True)
