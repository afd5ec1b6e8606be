import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.traffic import AdaptFolder, Seal
from engine.training.adapt.course import Adapter
from engine.training.adapt.fine_tune import Tuned
from engine.training.adapt.traffic import all_segments
from tests.unit.engine.training.adapt.small import made, record

TOKENS = 40 * 60  # of the texts that `record` writes


@pytest.fixture
def folder(tmp_path: Path) -> AdaptFolder:
    adapt = made(tmp_path)
    record(adapt, 40)
    return adapt


def adapter(folder: AdaptFolder, *, every: int = TOKENS) -> Adapter:
    return Adapter(folder, Seal(), every_tokens=every)


def outcomes(folder: AdaptFolder) -> dict[str, object]:
    found = folder.read_status()["outcomes"]
    assert isinstance(found, dict)
    return {name: count for name, count in found.items() if count}


def test_a_better_head_is_published_once(folder: AdaptFolder) -> None:
    assert adapter(folder).look() == "published"
    assert folder.head.resolve().name == "000001"
    assert outcomes(folder) == {"published": 1}

    assert adapter(folder).look() is None  # another process: nothing new


def test_it_waits_for_enough_new_text(folder: AdaptFolder, tmp_path: Path) -> None:
    assert adapter(folder, every=TOKENS + 1).look() is None

    record(folder, 10, seed=1)

    assert adapter(folder, every=TOKENS + 1).look() == "published"


def test_without_a_serving_head_nothing_happens(tmp_path: Path) -> None:
    folder = AdaptFolder(tmp_path)
    record(folder, 40)

    assert adapter(folder).look() is None


def test_a_head_that_is_not_better_is_not_published(
    folder: AdaptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tuned, "is_better", False)

    assert adapter(folder).look() == "not_better"
    assert not folder.head.exists()
    assert adapter(folder).look() is None


def test_after_a_deletion_on_request_the_result_is_thrown_away(folder: AdaptFolder) -> None:
    learning = Adapter(folder, Seal(), every_tokens=TOKENS, rest=folder.note_deletion)

    assert learning.look() == "deleted"
    assert not folder.head.exists()


def test_damaged_segments_are_skipped_and_reported(folder: AdaptFolder) -> None:
    all_segments(folder)[0].write_bytes(b"nothing")

    assert adapter(folder).look() == "published"
    last = folder.read_status()["last"]
    assert isinstance(last, dict)
    assert last["damaged_segments"] == 1


@pytest.mark.parametrize("gone", ["tables.safetensors", "serving/config.json"])
def test_what_cannot_be_read_fails_one_training(
    folder: AdaptFolder, tmp_path: Path, gone: str
) -> None:
    path = tmp_path / gone if "/" in gone else folder.root / gone
    path.write_bytes(b"nothing")

    assert adapter(folder).look() == "failed"
    assert str(folder.root) not in str(folder.read_status()["last"])
    assert adapter(folder).look() is None


def test_a_trainer_that_is_killed_leaves_nothing_and_the_next_one_publishes(
    folder: AdaptFolder,
) -> None:
    script = (
        "import sys, time; from pathlib import Path; from engine.traffic import *; "
        "from engine.training.adapt.course import Adapter; "
        "say = lambda: (print('step', flush=True), time.sleep(60)); "
        f"Adapter(AdaptFolder(Path(sys.argv[1])), Seal(), every_tokens={TOKENS}, rest=say).look()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(folder.root)],
        stdout=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"step\n"
        child.send_signal(signal.SIGKILL)

    assert not folder.head.exists()
    assert folder.read_status() == {}
    assert adapter(folder).look() == "published"
