import mmap
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from loadtest.memory import Processes, family_bytes, shared_out_bytes, written_bytes
from tests.integration.waiting import eventually

_FILE_BYTES = 64 << 20
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
    ourselves = psutil.Process()
    (tmp_path / "file").write_bytes(b"x" * _FILE_BYTES)
    before = written_bytes(ourselves)

    with (
        (tmp_path / "file").open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        assert mapped.find(b"y") == -1  # each page of it is in memory now
        with_file = written_bytes(ourselves)
    held = bytearray(b"x") * _FILE_BYTES

    assert with_file - before < _FILE_BYTES // 2
    assert written_bytes(ourselves) - before > _FILE_BYTES // 2
    assert len(held) == _FILE_BYTES


def test_an_ended_process_wrote_nothing() -> None:
    with subprocess.Popen(["true"]) as process:
        gone = psutil.Process(process.pid)
    with pytest.raises(psutil.NoSuchProcess):
        written_bytes(gone)
