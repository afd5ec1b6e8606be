import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bench.command import client_counts, new_parser, print_line
from bench.rounds import Json

ROOT = Path(__file__).parents[3]
POOL = """
import time
from bench.command import new_pool, print_line

def measure():
    with new_pool() as pool:
        for _ in range(4):
            pool.submit(time.sleep, 60)
        print("started", flush=True)
        time.sleep(60)

print_line(measure, ())
"""


@pytest.fixture(autouse=True)
def same_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_numbers_of_clients_are_read() -> None:
    assert client_counts("1,4,16") == [1, 4, 16]


@pytest.mark.parametrize("text", ["0", "1,-2", "1,33"])
def test_numbers_of_clients_out_of_range_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="1 to 32 clients"):
        client_counts(text, most=32)


def test_the_parser_knows_quick() -> None:
    assert new_parser("any").parse_args(["--quick"]).quick


def test_the_line_is_printed_rounded(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_line(lambda: {"bench": "any", "ratio": 1 / 3}, ()) == 0

    assert json.loads(capsys.readouterr().out) == {"bench": "any", "ratio": 0.3333}


def test_a_known_failure_is_one_line_and_no_figure(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> Json:
        raise OSError("no such folder")

    assert print_line(fail, (OSError,)) == 1

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.endswith("failed: no such folder\n")


def test_an_unknown_failure_is_not_hidden() -> None:
    def fail() -> Json:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        print_line(fail, (OSError,))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_pool_ends_with_its_parent(number: signal.Signals) -> None:
    command = [sys.executable, "-c", POOL]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"started\n"
        children = psutil.Process(parent.pid).children()
        assert children

        parent.send_signal(number)

        assert parent.wait(10) == -number
    assert not psutil.wait_procs(children, timeout=10)[1]
