"""The target as a writer: a worker of our own, used over its Unix socket."""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml
from pydantic import JsonValue

from engine.config import process_environment
from engine.errors import TrainingError

_START_SECONDS = 600.0
_POLL_SECONDS = 0.5
_STOP_SECONDS = 60.0
# Source: torchrun's documentation, "Environment Variables"; it sets OMP_NUM_THREADS to 1.
_TORCHRUN_MARK = "TORCHELASTIC_RUN_ID"
_TORCHRUN = frozenset({
    "GROUP_RANK", "GROUP_WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
    "MASTER_PORT", "OMP_NUM_THREADS", "RANK", "ROLE_RANK", "ROLE_WORLD_SIZE", "WORLD_SIZE",
})  # fmt: skip


class Writer:
    """Continues texts, concurrently.

    Attributes:
        pid: Of the worker's leading process.
    """

    def __init__(self, client: httpx.AsyncClient, model: str, pid: int) -> None:
        self.pid = pid
        self._client = client
        self._model = model

    async def write(
        self, tokens: Sequence[int], *, most: int, temperature: float
    ) -> tuple[list[int], bool]:
        """Return up to `most` tokens that follow, and whether the target ended the text itself.

        Raises:
            TrainingError: The worker rejected the request, or is gone.
        """
        answer = await self.ask(
            prompt=list(tokens), max_tokens=most, temperature=temperature, return_token_ids=True
        )
        (choice,) = answer["choices"]
        return choice["token_ids"], choice["finish_reason"] == "stop"

    async def ask(self, **fields: JsonValue) -> dict[str, Any]:
        """Send a completion request with these fields; return the answer.

        Raises:
            TrainingError: The worker rejected the request, or is gone.
        """
        try:
            answer = await self._post(fields)
            answer.raise_for_status()
        except httpx.HTTPError as exc:
            raise TrainingError(f"the worker failed: {exc!r}") from exc
        found: dict[str, Any] = answer.json()
        return found

    async def _post(self, fields: dict[str, JsonValue]) -> httpx.Response:
        body = {"model": self._model} | fields
        try:
            return await self._client.post("/v1/completions", json=body)
        except httpx.RemoteProtocolError:
            # On a busy machine the worker may close an idle connection just as it is used.
            return await self._client.post("/v1/completions", json=body)

    async def read(self, path: str) -> str:
        """Return the text of one of the worker's pages, such as `/metrics`.

        Raises:
            TrainingError: The worker has no such page, or is gone.
        """
        try:
            answer = await self._client.get(path)
            answer.raise_for_status()
        except httpx.HTTPError as exc:
            raise TrainingError(f"the worker failed: {exc!r}") from exc
        return answer.text


@contextlib.asynccontextmanager
async def starting_writer(
    engine: dict[str, JsonValue], *, model: str, log: Path, port: int | None = None
) -> AsyncIterator[Writer]:
    """Start a worker, wait until it is ready, and stop it at the end.

    Args:
        engine: The `engine:` section of its profile.
        model: The name under which it serves the target.
        log: File for its output.
        port: A free port of this machine, if others use the worker, too; else it has a Unix socket.

    Raises:
        TrainingError: It did not start.
    """
    with contextlib.ExitStack() as stack:
        # A Unix socket's path must be short.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-train-")))
        profile, socket = folder / "profile.yaml", folder / "s"
        profile.write_text(yaml.safe_dump({"engine": engine}), encoding="utf-8")
        output = stack.enter_context(log.open("ab"))
        address = ["--uds", str(socket)] if port is None else ["--port", str(port)]
        worker = subprocess.Popen(  # noqa: S603, ASYNC220  # our own module; starts at once
            [sys.executable, "-m", "engine", "--config", str(profile), *address,
             "--die-with-parent"],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env=_alone(process_environment()),
            start_new_session=True,  # keeps Ctrl-C at the terminal away from it; we stop it
        )  # fmt: skip
        stack.callback(_stop, worker)
        async with httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(
                uds=str(socket) if port is None else None,
                # Well before the worker closes an idle connection, after 5 s. No limit otherwise.
                limits=httpx.Limits(keepalive_expiry=1.0),
            ),
            base_url="http://worker" if port is None else f"http://127.0.0.1:{port}",
            timeout=None,  # noqa: S113  # a full batch may take minutes; a dead worker disconnects
        ) as client:
            await _wait(worker, client, log)
            yield Writer(client, model, worker.pid)


def _alone(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which vLLM does not consider itself part of torchrun's group."""
    if _TORCHRUN_MARK not in environment:
        return dict(environment)
    return {
        name: value
        for name, value in environment.items()
        if name not in _TORCHRUN and not name.startswith("TORCHELASTIC_")
    }


async def _wait(worker: subprocess.Popen[bytes], client: httpx.AsyncClient, log: Path) -> None:
    deadline = asyncio.get_running_loop().time() + _START_SECONDS
    while asyncio.get_running_loop().time() < deadline:
        if worker.poll() is not None:
            raise TrainingError(f"the worker did not start; see {log}")
        with contextlib.suppress(httpx.TransportError):
            if (await client.get("/health")).is_success:
                return
        await asyncio.sleep(_POLL_SECONDS)
    raise TrainingError(f"the worker is not ready; see {log}")


def _stop(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    try:
        worker.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
