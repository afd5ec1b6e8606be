"""A server of one method, asked over a Unix socket."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml
from pydantic import JsonValue

from engine.config import ENVIRONMENT_PREFIX
from loadtest.processes import ChildProcess, Command

_ROOT = Path(__file__).parents[2]
_URL = "http://server"
_EXTENSION = "bench.gpu.probe.Probe"


class ServerError(Exception):
    """A server did not answer as it should; the message has its output."""


class Server:
    """A worker of ours, or vLLM alone.

    Args:
        name: Of the method.
        engine: The `engine:` section of its profile.
        baseline: vLLM's `speculative_config`, empty for none; None for a worker of ours.
        folder: Takes its profile, socket and log; must be short.
    """

    def __init__(
        self,
        name: str,
        engine: Mapping[str, Any],
        baseline: Mapping[str, JsonValue] | None,
        folder: Path,
    ) -> None:
        profile, socket = folder / f"{name}.yaml", folder / f"{name}.sock"
        self.log = folder / f"{name}.log"
        options = {"worker_extension_cls": _EXTENSION, "cudagraph_metrics": True}
        section = {**engine, "vllm": {**engine["vllm"], **options}}
        profile.write_text(yaml.safe_dump({"engine": section}), encoding="utf-8")
        arguments = ["--config", str(profile), "--uds", str(socket)]
        program = ["-m", "engine", *arguments, "--die-with-parent"]
        if baseline is not None:
            program = ["-m", "bench.engine.baseline", *arguments]
            program += ["--speculative", json.dumps(dict(baseline))]
        command = Command(
            name=name,
            arguments=[sys.executable, *program],
            ready_url=f"{_URL}/health",
            start_seconds=240.0,
            # For /collective_rpc; and its tables of graphs every other second.
            environment={"VLLM_SERVER_DEV_MODE": "1", "VLLM_LOG_STATS_INTERVAL": "2"},
            stop_seconds=30.0,
            ready_socket=socket,
            without=(ENVIRONMENT_PREFIX,),
            folder=_ROOT,
        )
        self._process = ChildProcess(command, log=self.log)
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(socket)), base_url=_URL, timeout=300.0
        )
        self._model = ""

    async def start(self) -> None:
        """Start it, and wait until it serves.

        Raises:
            StartError: It ended, or took too long.
        """
        await self._process.start()
        found = await self._request("GET", "/v1/models")
        self._model = found["data"][0]["id"]

    async def stop(self) -> None:
        """End it and everything it started."""
        await self._client.aclose()
        await self._process.stop()

    async def complete(self, prompt: str, tokens: int, **fields: Any) -> Any:
        """Return the greedy completion of a prompt, as the API has it.

        Raises:
            ServerError: It was not answered with 200.
        """
        body = {"model": self._model, "prompt": prompt, "max_tokens": tokens, "temperature": 0}
        return await self._request("POST", "/v1/completions", {**body, **fields})

    async def complete_all(
        self, prompts: Sequence[str], clients: int, tokens: int, **fields: Any
    ) -> list[Any]:
        """Complete prompts, so many at a time; answers come in their order."""
        free = asyncio.Semaphore(clients)

        async def one(prompt: str) -> Any:
            async with free:
                return await self.complete(prompt, tokens, **fields)

        return list(await asyncio.gather(*map(one, prompts)))

    async def call(self, method: str, *arguments: str) -> Any:
        """Call a method of `Probe` on each rank; return the first one's result."""
        found = await self._request(
            "POST", "/collective_rpc", {"method": method, "args": list(arguments)}
        )
        return found["results"][0]

    async def _request(self, method: str, path: str, body: object = None) -> Any:
        try:
            response = await self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise ServerError(self._process.explained(f"{path}: {error!r}")) from error
        if response.status_code != 200:
            raise ServerError(f"{path}: {response.text[:400]}")
        return response.json()
