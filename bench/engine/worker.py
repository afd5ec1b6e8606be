"""One worker process, which gets its requests over a Unix socket."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from pydantic import JsonValue

from bench.engine.methods import Method
from bench.engine.plan import TENANT
from bench.engine.records import Ask
from engine.config import ENVIRONMENT_PREFIX
from loadtest.processes import ChildProcess, Command, StartError

_ROOT = Path(__file__).parents[2]
_URL = "http://worker"
_DECIDED = (ENVIRONMENT_PREFIX, "VLLM_CPU_KVCACHE_SPACE", "VLLM_PLUGINS")
"""Variables of this process that would win over the profile."""
_START_SECONDS = 300.0
_STOP_SECONDS = 20.0
_ANSWER_SECONDS = 900.0  # a slow model with fifteen other requests
_IDLE_SECONDS = 1.0  # vLLM closes an idle connection after 5 s, possibly just as it is used
_TEMPLATE_TOKENS = 64  # what a chat template adds to a message, at most


class WorkerError(Exception):
    """A worker did not start, or did not answer as it should; the message has its output."""


class BenchWorker:
    """A method's worker.

    Args:
        folder: Takes its socket and its log; must be short, sockets have 107 characters at most.
        profile: What `write_profile` wrote.
        packages: Where arctic-inference is, for the method that needs it.
    """

    def __init__(self, method: Method, folder: Path, profile: Path, *, packages: Path) -> None:
        self.method = method
        socket = folder / f"{method.name}.sock"
        command = Command(
            name=method.name,
            arguments=_arguments(method, socket, profile, packages),
            ready_url=f"{_URL}/health",
            start_seconds=_START_SECONDS,
            environment={},
            stop_seconds=_STOP_SECONDS,
            ready_socket=socket,
            without=_DECIDED,
            folder=_ROOT,
        )
        self._process = ChildProcess(command, log=folder / f"{method.name}.log")
        self._model = ""
        self._most_tokens = 0
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(socket)),
            base_url=_URL,
            timeout=_ANSWER_SECONDS,
            limits=httpx.Limits(keepalive_expiry=_IDLE_SECONDS),
        )

    async def start(self) -> None:
        """Start it and wait until it serves.

        Raises:
            WorkerError: It ended, or took too long.
        """
        try:
            await self._process.start()
        except StartError as error:
            raise WorkerError(str(error)) from error
        served = (await self._request("GET", "/v1/models"))["data"][0]
        self._model, self._most_tokens = served["id"], int(served["max_model_len"])

    async def stop(self) -> None:
        """End it and everything it started."""
        await self._client.aclose()
        await self._process.stop()

    async def answer(
        self, ask: Ask, extra: Mapping[str, JsonValue] | None = None
    ) -> Mapping[str, Any]:
        """Send a request without streaming; our workers get the fields that the gateway would add.

        Args:
            ask: What to answer.
            extra: Further fields of `vllm_xargs` for our workers.

        Raises:
            WorkerError: It was not answered with 200.
        """
        body: dict[str, object] = {
            "model": self._model,
            "messages": ask.messages,
            "max_tokens": ask.most_tokens,
            "temperature": ask.temperature,
            "ignore_eos": ask.ignore_eos,
        }
        if self.method.is_ours:
            wishes: dict[str, object] = {"specgate_tenant": TENANT, **(extra or {})}
            if ask.prediction is not None:
                # The gateway does the same, so its time is part of the request's.
                text = {"prompt": ask.prediction, "add_special_tokens": False}
                wishes["specgate_prediction"] = (await self._tokenize(text))["tokens"]
            body["vllm_xargs"] = wishes
        found: Mapping[str, Any] = await self._request("POST", "/v1/chat/completions", body)
        return found

    async def fits(self, ask: Ask) -> bool:
        """Tell whether a request and its longest answer are within the model's length."""
        room = self._most_tokens - ask.most_tokens
        # No token is shorter than a byte, so short prompts need not be tokenized.
        sizes = [_TEMPLATE_TOKENS + len(message["content"].encode()) for message in ask.messages]
        if sum(sizes) + _TEMPLATE_TOKENS <= room:
            return True
        count: int = (await self._tokenize({"messages": ask.messages}))["count"]
        return count <= room

    @property
    def model(self) -> str:
        """Its model's name in requests, once it has been started."""
        return self._model

    async def send(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send a request and return the response, whatever its status.

        Raises:
            WorkerError: There was none.
        """
        try:
            return await self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise WorkerError(self._process.explained(f"{path}: {error!r}")) from error

    async def metrics(self) -> str:
        """Its metrics in the Prometheus text format."""
        response = await self._client.get("/metrics")
        return response.text

    def cpu_seconds(self) -> float:
        """CPU time of all its processes so far."""
        return self._process.cpu_seconds()

    async def _tokenize(self, text: Mapping[str, object]) -> Any:
        return await self._request("POST", "/tokenize", {"model": self._model, **text})

    async def _request(self, method: str, path: str, body: object = None) -> Any:
        response = await self.send(method, path, body)
        if response.status_code != 200:
            raise WorkerError(f"{self.method.name}: {path}: {response.text[:400]}")
        return response.json()


def _arguments(method: Method, socket: Path, profile: Path, packages: Path) -> list[str]:
    common = ["--config", str(profile), "--uds", str(socket)]
    if method.baseline is None:
        return [sys.executable, "-m", "engine", *common, "--die-with-parent"]
    baseline = ["--speculative", json.dumps(dict(method.baseline))]
    if method.needs_arctic:
        baseline += ["--packages", str(packages)]
    return [sys.executable, "-m", "bench.engine.baseline", *common, *baseline]
