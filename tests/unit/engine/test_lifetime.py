import signal
import subprocess
import sys
import time

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
print(child.pid, child.stdout.readline().strip(), flush=True)
time.sleep(60)
"""

CHILD = """
import os, time
from engine.lifetime import die_with_parent
die_with_parent(os.getppid())
print("tied", flush=True)
time.sleep(60)
"""


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_parent_takes_the_worker_with_it() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child_pid, said = parent.stdout.readline().split()

    parent.send_signal(signal.SIGKILL)
    parent.wait(10)
    parent.stdout.close()

    assert said == "tied"
    deadline = time.monotonic() + 10
    while is_alive(int(child_pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(int(child_pid))


def test_a_worker_whose_parent_has_gone_leaves_at_once() -> None:
    code = "from engine.lifetime import die_with_parent; die_with_parent(999999999); print('on')"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )

    assert (done.returncode, done.stdout) == (0, "")


def test_terminate_runs_the_finally_blocks() -> None:
    code = (
        "import os, signal\n"
        "from engine.lifetime import exit_on_terminate\n"
        "exit_on_terminate()\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    signal.pause()\n"
        "finally:\n"
        "    print('cleaned')\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )

    assert (done.returncode, done.stdout.strip()) == (0, "cleaned")
