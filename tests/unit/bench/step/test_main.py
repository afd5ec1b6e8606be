import signal
import sys
from collections.abc import Iterator

import pytest

import bench.step.__main__ as command


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_processor_without_kernels_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.step", "--quick"])
    monkeypatch.setattr(command, "kernels_here", list)

    assert command.main() == 1

    told = capsys.readouterr()
    assert "failed: this processor has neither AVX2 with FMA nor AVX-512" in told.err
    assert told.out == ""


@pytest.mark.parametrize("threads", ["0", "-2", "many"])
def test_threads_that_make_no_sense_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], threads: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.step", f"--threads={threads}"])

    with pytest.raises(SystemExit):
        command.main()

    assert "--threads" in capsys.readouterr().err
