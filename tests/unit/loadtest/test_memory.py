import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from loadtest.memory import Processes, family_bytes, shared_out_bytes, written_bytes
from tests.integration.waiting import eventually

_FILE_BYTES = 64 << 20
_MAPS_THEN_WRITES = """
import mmap, sys

def pause():
    print("paused", flush=True)
    sys.stdin.readline()

pause()
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
assert mapped.find(b"y") == -1  # each page of it is in memory now
pause()
copy = mapped[:]
pause()
"""
_TREE = "sh -c 'sleep 60; : EngineCore' & wait"


@pytest.fixture
def worker() -> Iterator[psutil.Process]:
    """A process with one below it whose command says EngineCore."""
    with subprocess.Popen(["sh", "-c", _TREE]) as process:
        tree = psutil.Process(process.pid)
        yield tree
        for member in [*tree.children(recursive=True), tree]:
            member.kill()


async def test_the_processes_of_a_service_are_found(worker: psutil.Process) -> None:
    await eventually(lambda: bool(worker.children()))

    found = Processes.find(psutil.Process().pid, worker.pid)

    assert found.api_server == worker
    assert found.engine_core == worker.children()[0]
    assert list(found.by_name()) == ["gateway", "api_server", "engine_core"]


def test_a_worker_without_an_engine_is_not_a_service() -> None:
    with pytest.raises(psutil.NoSuchProcess, match="no EngineCore"):
        Processes.find(1, psutil.Process().pid)


async def test_a_family_takes_what_its_members_take(worker: psutil.Process) -> None:
    await eventually(lambda: len(worker.children(recursive=True)) == 2)

    taken = family_bytes(worker)

    members = [worker, *worker.children(recursive=True)]
    assert taken == pytest.approx(sum(map(shared_out_bytes, members)), rel=0.2)
    assert taken > 0


def test_what_a_process_wrote_counts_and_a_file_that_it_maps_does_not(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * _FILE_BYTES)

    # A process of its own: this one may hold freed memory, which a new object takes unseen.
    with subprocess.Popen(
        [sys.executable, "-c", _MAPS_THEN_WRITES, file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        process = psutil.Process(child.pid)
        before, with_file, with_copy = (
            _written_at_its_next_pause(child, process) for _ in range(3)
        )
        child.kill()

    assert with_file - before < _FILE_BYTES // 2
    assert with_copy - with_file > _FILE_BYTES // 2


def _written_at_its_next_pause(child: subprocess.Popen[str], process: psutil.Process) -> int:
    """What the child wrote until it paused; then it goes on."""
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline() == "paused\n"
    written = written_bytes(process)
    child.stdin.write("\n")
    child.stdin.flush()
    return written


def test_an_ended_process_wrote_nothing() -> None:
    with subprocess.Popen(["true"]) as process:
        gone = psutil.Process(process.pid)
    with pytest.raises(psutil.NoSuchProcess):
        written_bytes(gone)
