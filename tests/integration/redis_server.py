"""A real redis-server on a Unix socket, which tests may kill, stop for a while and start again."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_START_SECONDS = 10.0


class RedisServer:
    """Without persistence: it forgets everything when it is killed."""

    def __init__(self, program: str, folder: Path, *options: str) -> None:
        self._socket = folder / "redis"
        self._arguments = [
            *(program, "--port", "0", "--unixsocket", str(self._socket)),
            *("--save", "", "--dir", str(folder), *options),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{self._socket}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(self._arguments, stdout=subprocess.DEVNULL)
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and not self._answers():
            time.sleep(0.01)
        assert self._answers()

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._socket.unlink(missing_ok=True)

    def suspend(self) -> None:
        """Let it hang: connections stay open, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it continue."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def ask(self, *words: str) -> bytes:
        """Send one command; returns the start of the reply as it comes."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(self._socket))
            connection.sendall(" ".join(words).encode() + b"\r\n")
            return connection.recv(65536)

    def _answers(self) -> bool:
        try:
            return self.ask("PING").startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


@contextmanager
def running_redis(folder: Path, *options: str) -> Iterator[RedisServer]:
    """Run a server; skips the test where there is none."""
    here = str(Path(sys.executable).parent)
    program = shutil.which("redis-server", path=os.pathsep.join((here, os.environ["PATH"])))
    if program is None:
        pytest.skip("no redis-server: scripts/install.sh redis")
    server = RedisServer(program, folder, *options)
    server.start()
    try:
        yield server
    finally:
        server.kill()
