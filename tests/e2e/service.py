"""Start the real thing, `specgate serve` with the default profile, and see that all of it ends."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

ROOT = Path(__file__).parent.parent.parent
MODEL = "smollm2-135m"
SPECGATE = Path(sys.executable).with_name("specgate")
_START_SECONDS = 240
_STOP_SECONDS = 60


@dataclass(frozen=True)
class Service:
    """A running gateway with its worker."""

    url: str
    process: psutil.Popen
    log: Path

    @property
    def worker(self) -> psutil.Process:
        """The worker's leading process: vLLM's API server."""
        (found,) = self.get("/health/workers")["workers"]
        return psutil.Process(found["supervisor"]["pid"])

    @property
    def engine_core(self) -> psutil.Process:
        """vLLM's engine, below the worker."""
        (found,) = [
            child for child in self.worker.children() if "EngineCore" in " ".join(child.cmdline())
        ]
        return found

    @property
    def restarts(self) -> int:
        """How often the supervisor has restarted the worker."""
        (found,) = self.get("/health/workers")["workers"]
        count: int = found["supervisor"]["restarts"]
        return count

    def get(self, path: str) -> dict:  # type: ignore[type-arg]  # any JSON object
        """A JSON page of the gateway."""
        answer: dict = httpx.get(self.url + path, timeout=10).json()  # type: ignore[type-arg]  # same
        return answer

    def worker_metric(self, name: str) -> float:
        """A sample of the worker's own `/metrics`, read over its socket."""
        with self.worker_client() as client:
            text = client.get("/metrics").text
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    def ask_worker(self, path: str, body: Mapping[str, Any]) -> None:
        """Send JSON to the worker itself, past the gateway; expects the status 200."""
        with self.worker_client() as client:
            client.post(path, json=body).raise_for_status()

    def worker_client(self, *, seconds: float = 10) -> httpx.Client:
        """A client on the worker's socket, past the gateway; requests may take `seconds`."""
        command = self.worker.cmdline()
        # vLLM closes a connection that was idle for 5 s, which may be when the client writes.
        limits = httpx.Limits(max_connections=64, keepalive_expiry=1.0)
        transport = httpx.HTTPTransport(uds=command[command.index("--uds") + 1], limits=limits)
        return httpx.Client(transport=transport, base_url="http://worker", timeout=seconds)

    def wait_ready(self, seconds: float = _START_SECONDS) -> None:
        """Wait until a worker can take requests."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(self.url + "/health/ready", timeout=5).status_code == 200:
                    return
            assert self.process.poll() is None, self.last_lines()
            time.sleep(0.2)
        raise AssertionError(f"not ready after {seconds} s:\n{self.last_lines()}")

    def last_lines(self) -> str:
        """The end of the log, for a failed assertion."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:])


@contextlib.contextmanager
def running_service(
    folder: Path,
    *,
    program: Path = SPECGATE,
    config: str | Path = "cpu-smollm2",
    engine: Mapping[str, str] | None = None,
    **settings: str,
) -> Iterator[Service]:
    """Run `specgate serve`; at the end: Ctrl-C, exit status 0, no process left.

    Args:
        folder: For the log, and the working directory.
        program: The command `specgate` of an environment.
        config: The name or the path of a profile.
        engine: Names below `SPECGATE_ENGINE__`, lower case allowed.
        settings: Names below `SPECGATE_GATEWAY__`, lower case allowed.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "SPECGATE_GATEWAY__PORT": str(port),
        "SPECGATE_GATEWAY__CANARY__SHARE": "0",  # a test that wants it says so
        "SPECGATE_GATEWAY__RESPONSES__PATH": str(folder.resolve() / "responses.sqlite"),
        **{f"SPECGATE_GATEWAY__{name.upper()}": value for name, value in settings.items()},
        **{f"SPECGATE_ENGINE__{name.upper()}": value for name, value in (engine or {}).items()},
    }
    log = folder / "service.log"
    with log.open("wb") as output:
        process = psutil.Popen(
            [program, "serve", "--config", config],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    service = Service(f"http://127.0.0.1:{port}", process, log)
    family: list[psutil.Process] = []
    try:
        service.wait_ready()
        yield service
        family = service.process.children(recursive=True)
        process.send_signal(signal.SIGINT)
        status = process.wait(_STOP_SECONDS)
        _, alive = psutil.wait_procs(family, timeout=5)
        assert status == 0, service.last_lines()
        assert not alive, f"left behind: {alive}"
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            family += service.process.children(recursive=True)
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        if process.poll() is None:
            process.kill()
        process.wait()
