from pathlib import Path

import pytest

from engine.heads import DraftHead, HeadConfig, read_head_config
from engine.traffic import AdaptFolder
from engine.training.adapt import publish as room
from engine.training.adapt.publish import clean, publish


def head(seed: int = 0) -> DraftHead:
    config = HeadConfig(kind="mlp", hidden_size=8, vocab_size=16, inner_size=8, positions=2)
    return DraftHead.new(config, seed=seed)


def send(folder: AdaptFolder, number: int) -> Path:
    serving = folder.heads / "000001"
    return publish(head(number), folder, serving=serving, card={"number": number})


def test_the_link_leads_to_the_newest_head(tmp_path: Path) -> None:
    folder = AdaptFolder(tmp_path)

    paths = [send(folder, number) for number in range(2)]

    assert folder.head.resolve() == paths[1].resolve()
    assert read_head_config(folder.head).card == {"number": 1}
    assert read_head_config(paths[0]).card == {"number": 0}


def test_old_heads_are_deleted_but_not_the_serving_one(tmp_path: Path) -> None:
    folder = AdaptFolder(tmp_path)

    for number in range(6):
        send(folder, number)

    assert sorted(path.name for path in folder.heads.iterdir()) == [
        "000001", "000004", "000005", "000006",
    ]  # fmt: skip


def test_a_failure_publishes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = AdaptFolder(tmp_path)
    first = send(folder, 0)

    def fail(head: DraftHead, path: Path, **_: object) -> None:
        path.mkdir(parents=True)
        (path / "model.safetensors").write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(room, "save_head", fail)
    with pytest.raises(OSError, match="No space"):
        send(folder, 1)

    assert folder.head.resolve() == first.resolve()
    assert [path.name for path in folder.heads.iterdir()] == ["000001"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    folder = AdaptFolder(tmp_path)
    (folder.heads / ".part-1").mkdir(parents=True)

    clean(folder)

    assert list(folder.heads.iterdir()) == []
