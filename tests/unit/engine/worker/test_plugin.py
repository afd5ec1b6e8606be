import multiprocessing
import os
import signal
import time
from importlib.metadata import entry_points
from multiprocessing.connection import Connection

from engine.worker.plugin import register


def live_as_grandchild(said: Connection) -> None:
    register()
    register()
    said.send(os.getpid())
    time.sleep(60)


def live_as_child(said: Connection) -> None:
    multiprocessing.get_context("spawn").Process(target=live_as_grandchild, args=(said,)).start()
    time.sleep(60)


def has_ended(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_children_of_vllm_end_with_a_killed_parent() -> None:
    context = multiprocessing.get_context("spawn")
    hears, said = context.Pipe(duplex=False)
    child = context.Process(target=live_as_child, args=(said,))
    child.start()
    assert hears.poll(30)
    grandchild_pid = hears.recv()

    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join(10)

    deadline = time.monotonic() + 10
    while not has_ended(grandchild_pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert has_ended(grandchild_pid)


def test_vllm_finds_the_plugin() -> None:
    (found,) = [e for e in entry_points(group="vllm.general_plugins") if e.name == "specgate"]

    assert found.load() is register
