"""A real worker with no gateway before it: `python -m engine`, asked over its Unix socket."""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.exactness.answers import Answer, Frames
from tests.e2e.exactness.heads import shipped_path, write_blind_head
from tests.e2e.service import MODEL, ROOT
from tests.v2_on_cpus.environment import environment

Body = Mapping[str, Any]

RUNNER, _, SCHEDULING = os.environ.get("SPECGATE_TEST_RUNNER", "v1").partition("-")
"""vLLM's model runner in all workers of these tests, v1 or v2, and how V2 schedules.

v2 schedules asynchronously and chooses for each step; in v2-ahead no step waits for the tokens of
the last one, and the head is one that drafts there; v2-sync is synchronous.
"""

_START_SECONDS = 240
_STOP_SECONDS = 60
_ANSWER_SECONDS = 900  # on V2, whose kernels are interpreted
_DEFAULTS: Body = {"model": MODEL, "temperature": 0, "max_tokens": 24, "return_token_ids": True}
_PLAIN = {"specgate_mode": "off", "specgate_tenant": "plain decoding"}


@dataclass(frozen=True)
class Worker:
    """A worker that has been started.

    Attributes:
        overrides: Fields that replace those of every request.
    """

    process: psutil.Popen
    client: httpx.Client
    log: Path
    overrides: Body = field(default_factory=dict)

    def plain(self) -> "Worker":
        """The same worker, asked without speculation.

        These requests have a tenant of their own, so that no draft is taken from their answers.
        """
        return replace(self, overrides={"vllm_xargs": _PLAIN})

    @property
    def model_worker(self) -> psutil.Process:
        """The process that holds the model: the largest."""
        family = self.process.children(recursive=True)
        return max(family, key=lambda process: process.memory_info().rss)

    def ask(self, body: Body) -> Answer:
        """Send a request, a chat if it has messages, and read the whole answer."""
        return Answer.read(self.post(_path(body), {**_DEFAULTS, **body, **self.overrides}))

    def ask_all(self, bodies: Sequence[Body], *, concurrency: int = 8) -> list[Answer]:
        """Send requests, `concurrency` at a time; answers come in their order."""
        with ThreadPoolExecutor(concurrency) as pool:
            return list(pool.map(self.ask, bodies))

    @contextlib.contextmanager
    def streaming(self, body: Body) -> Iterator[Iterator[dict[str, Any]]]:
        """Stream an answer, chunk by chunk; the client hangs up at the end of the block."""
        with self.client.stream(
            "POST", _path(body), json={**_DEFAULTS, **body, **self.overrides, "stream": True}
        ) as response:
            assert response.status_code == 200, response.read()
            lines = (line.removeprefix("data: ") for line in response.iter_lines() if line)
            yield (json.loads(line) for line in lines if line != "[DONE]")

    def stream(self, body: Body) -> Frames:
        """Stream an answer to its end."""
        with self.streaming(body) as chunks:
            return Frames.read(chunks)

    def stream_all(self, bodies: Sequence[Body]) -> list[Frames]:
        """Stream answers to their ends, all at once; they come in their order."""
        with ThreadPoolExecutor(len(bodies)) as pool:
            return list(pool.map(self.stream, bodies))

    def post(self, path: str, body: Body) -> dict[str, Any]:
        """Send JSON, expect JSON and the status 200."""
        response = self.client.post(path, json=body)
        assert response.status_code == 200, f"{response.status_code}: {response.text}"
        answer: dict[str, Any] = response.json()
        return answer

    def tokenize(self, text: str) -> list[int]:
        """Return the ids of a text, without special tokens."""
        body = {"model": MODEL, "prompt": text, "add_special_tokens": False}
        tokens: list[int] = self.post("/tokenize", body)["tokens"]
        return tokens

    def call(self, method: str, *arguments: str) -> Any:
        """Call a method of `Probe` on all ranks; return the first one's result."""
        result, *_ = self.post("/collective_rpc", {"method": method, "args": arguments})["results"]
        return result

    def held(self) -> dict[str, int]:
        """What our rooms in the model worker still remember of requests."""
        found: dict[str, int] = self.call("specgate_held")
        return found

    def objects(self) -> int:
        """How many objects Python keeps alive in the model worker."""
        count: int = self.call("specgate_objects")["objects"]
        return count

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name with these labels; 0 if there is none."""
        families = text_string_to_metric_families(self.client.get("/metrics").text)
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def wait_for(
        self,
        name: str,
        *,
        above: float = -math.inf,
        below: float = math.inf,
        seconds: float = 15,
        **labels: str,
    ) -> float:
        """Wait until a metric is between two values: ours are published once a second."""
        deadline = time.monotonic() + seconds
        while not above < (value := self.metric(name, **labels)) < below:
            assert time.monotonic() < deadline, f"{name} stays at {value}"
            time.sleep(0.1)
        return value

    def wait_idle(self, seconds: float = 15) -> None:
        """Wait until no request runs or waits."""
        deadline = time.monotonic() + seconds
        while self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting"):
            assert time.monotonic() < deadline, self.last_lines()
            time.sleep(0.05)

    def wait_ready(self) -> None:
        """Wait until it serves. Its log tells: httpx leaks a socket with each try that fails."""
        deadline = time.monotonic() + _START_SECONDS
        while "Application startup complete" not in (lines := self.last_lines()):
            assert self.process.poll() is None, lines
            assert time.monotonic() < deadline, f"not ready after {_START_SECONDS} s:\n{lines}"
            time.sleep(0.2)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Signal its process group, as the gateway does, or a terminal; then it ends."""
        with self.ending():
            os.killpg(self.process.pid, number)

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Expect it to end by what is done in the block: with status 0, and no process left."""
        family = self.process.children(recursive=True)
        yield
        assert self.process.wait(_STOP_SECONDS) == 0, self.last_lines()
        _, alive = psutil.wait_procs(family, timeout=5)
        assert not alive, f"left behind: {alive}"

    def last_lines(self) -> str:
        """The end of the log, for a failed assertion."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-60:])


def good_head(folder: Path) -> Path:
    """Return a head that drafts with the scheduling that these tests are run with.

    Args:
        folder: Where to make one if need be.
    """
    return write_blind_head(folder) if SCHEDULING == "ahead" else shipped_path()


def _scheduled(engine: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the section with the scheduling that these tests are run with."""
    speculation = engine.get("speculation")
    if SCHEDULING == "sync":
        return {**engine, "vllm": {**engine.get("vllm", {}), "async_scheduling": False}}
    if SCHEDULING == "ahead" and isinstance(speculation, dict):
        head = speculation.get("head", {})
        if "head" in speculation.get("sources", ()) and "path" not in head:
            head = {**head, "path": str(good_head(folder / "blind head"))}
        return {**engine, "speculation": {**speculation, "head": head, "launch": "ahead"}}
    return dict(engine)


@contextlib.contextmanager
def starting_worker(folder: Path, engine: Mapping[str, Any]) -> Iterator[Worker]:
    """Start a worker, do not wait for it; at the end: SIGTERM, status 0, unless it ended before.

    Args:
        folder: For the profile and the log.
        engine: The profile's `engine:` section.
    """
    profile, log = folder / "profile.yaml", folder / "worker.log"
    section = _scheduled({"runner": RUNNER, **engine}, folder)
    profile.write_text(yaml.safe_dump({"engine": section}), encoding="utf-8")
    variables = environment() if section["runner"] == "v2" else {}
    with contextlib.ExitStack() as stack:
        # A socket's path must be short.
        short = stack.enter_context(tempfile.TemporaryDirectory(prefix="exact-"))
        output = stack.enter_context(log.open("wb"))
        socket = f"{short}/s"
        process = psutil.Popen(
            [sys.executable, "-m", "engine", "--config", profile, "--uds", socket,
             "--die-with-parent"],
            cwd=ROOT, env=os.environ | variables,
            stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        stack.callback(_kill_group, process)
        # vLLM closes a connection that was idle for 5 s, which may be when the client writes.
        limits = httpx.Limits(max_connections=64, keepalive_expiry=1.0)
        client = stack.enter_context(
            httpx.Client(
                transport=httpx.HTTPTransport(uds=socket, limits=limits),
                base_url="http://worker",
                timeout=_ANSWER_SECONDS,
            )
        )
        worker = Worker(process, client, log)
        yield worker
        if process.poll() is None:
            worker.stop()


def _kill_group(process: psutil.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _path(body: Body) -> str:
    return "/v1/chat/completions" if "messages" in body else "/v1/completions"
