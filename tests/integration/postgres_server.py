"""A real PostgreSQL server on a Unix socket, which tests may kill and start again."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

_START_SECONDS = 20.0
_DEBIAN = Path("/usr/lib/postgresql")
_USER = "nobody" if os.geteuid() == 0 else None
"""The server refuses to run as root."""


class PostgresServer:
    """Empties nothing between starts: what was committed before a kill is there after it.

    Attributes:
        url: Of its database.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        self._folder = folder
        self._programs = programs
        beside = (programs.parents[2]).glob("*-linux-gnu")  # what Debian's package needs
        libraries = ":".join(map(str, beside))
        self._environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://specgate@/postgres?host={folder}"

    def create(self) -> None:
        """Create its files."""
        self._run("initdb", "--username=specgate", "--auth=trust", "--no-sync", "--encoding=UTF8")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            [
                *(self._programs / "postgres", "-D", self._folder / "data", "-c", "fsync=off"),
                *("-c", "listen_addresses=", "-c", f"unix_socket_directories={self._folder}"),
            ],
            user=_USER,
            cwd=self._folder,
            env=self._environment,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and not self._answers():
            time.sleep(0.02)
        assert self._answers()

    def kill(self) -> None:
        """End it at once: what was committed is kept."""
        if self._process is not None:
            self._process.send_signal(3)  # SIGQUIT: immediate shutdown, children included
            self._process.wait()
            self._process = None

    def execute(self, statement: str) -> None:
        """Run one statement."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *options: str) -> None:
        subprocess.run(
            [self._programs / program, "-D", self._folder / "data", *options],
            user=_USER,
            cwd=self._folder,
            env=self._environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Run a server; skips the test where there is none."""
    programs = _find_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server: scripts/install.sh postgres")
    folder = Path(tempfile.mkdtemp(prefix="sg-"))
    try:
        if _USER is not None:
            entry = pwd.getpwnam(_USER)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
        server = PostgresServer(programs, folder)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder)


def _find_programs() -> Path | None:
    """The folder of `initdb` and `postgres`: Debian keeps them off PATH."""
    here = Path(sys.executable).parent.parent / "postgres"
    debian = sorted((*here.glob("usr/lib/postgresql/*/bin"), *_DEBIAN.glob("*/bin")))
    found = shutil.which("initdb")
    on_path = [] if found is None else [Path(found).resolve().parent]
    return next((one for one in (*on_path, *debian) if (one / "postgres").exists()), None)
