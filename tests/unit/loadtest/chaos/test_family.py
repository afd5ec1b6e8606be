import subprocess
import sys

PROGRAM = """
import subprocess, sys, time
from loadtest.chaos import family
from loadtest.chaos.family import adopt_orphans, end_descendants, living_descendants

family._MOMENT_SECONDS = 0.1
adopt_orphans()
# A child that starts a grandchild in a session of its own and ends: nobody's child any more.
subprocess.run(["sh", "-c", "setsid sleep 60 & setsid sleep 61 &"], check=True)
until = time.monotonic() + 5
while len(found := living_descendants()) < 2 and time.monotonic() < until:
    time.sleep(0.01)
found[0].suspend()
print(len(found), end_descendants(), len(living_descendants()))
"""


def test_orphans_are_found_and_ended_even_when_they_are_frozen() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=20, check=True
    )

    assert done.stdout.split() == ["2", "2", "0"]
