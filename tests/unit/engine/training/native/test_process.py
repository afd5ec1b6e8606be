import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from engine.errors import TrainingError
from engine.training.native.process import run_library

PATIENT = """
import pathlib, signal, sys, time
try:
    print("waiting", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    pathlib.Path(sys.argv[1]).touch()
"""


def test_a_failure_names_the_log_which_has_the_output(tmp_path: Path) -> None:
    log = tmp_path / "log"

    with pytest.raises(TrainingError, match=f"training failed with status 3; see {log}"):
        run_library([sys.executable, "-c", "print('why'); exit(3)"], log=log, doing="training")

    assert log.read_text() == "why\n"


def test_an_interrupt_lets_the_command_save_what_it_has(tmp_path: Path) -> None:
    log, saved = tmp_path / "log", tmp_path / "saved"
    command = [sys.executable, "-c", PATIENT, str(saved)]

    main = threading.get_ident()

    def interrupt() -> None:
        while "waiting" not in log.read_text():
            time.sleep(0.02)
        signal.pthread_kill(main, signal.SIGINT)  # as the kernel does at Ctrl-C

    log.touch()
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_library(command, log=log, doing="training")
    thread.join()

    assert saved.exists()
