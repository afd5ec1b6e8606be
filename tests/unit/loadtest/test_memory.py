import subprocess
from collections.abc import Iterator

import psutil
import pytest

from loadtest.memory import Processes, family_bytes, shared_out_bytes
from tests.integration.waiting import eventually

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
