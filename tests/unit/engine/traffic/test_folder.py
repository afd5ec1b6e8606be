from pathlib import Path

import pytest
import torch

from engine.errors import TrafficError
from engine.traffic import AdaptFolder

TABLE = torch.randn(6, 4).to(torch.bfloat16)


@pytest.fixture
def folder(tmp_path: Path) -> AdaptFolder:
    return AdaptFolder(tmp_path / "adapt")


def test_worker_and_trainer_read_what_the_other_wrote(folder: AdaptFolder) -> None:
    assert folder.read_serving() is None
    assert folder.read_status() == {}

    folder.write_serving(Path("/heads/a"), "model")
    folder.write_status({"until": "x"})

    assert folder.read_serving() == (Path("/heads/a"), "model")
    assert folder.read_status() == {"until": "x"}
    assert sorted(path.name for path in folder.root.iterdir()) == ["serving.json", "status.json"]


def test_tied_tables_are_stored_once(folder: AdaptFolder) -> None:
    folder.write_tables(TABLE.float(), TABLE.float(), tokenizer=None)
    apart = (folder.root / "tables.safetensors").stat().st_size
    same = TABLE.float()
    folder.write_tables(same, same, tokenizer="0" * 64)

    embedding, output, tokenizer = folder.read_tables()

    assert (folder.root / "tables.safetensors").stat().st_size < apart
    assert output is embedding
    assert tokenizer == "0" * 64
    torch.testing.assert_close(embedding, TABLE)


def test_missing_tables_are_an_error(folder: AdaptFolder) -> None:
    with pytest.raises(TrafficError, match="no tables"):
        folder.read_tables()


def test_each_deletion_is_noticed(folder: AdaptFolder) -> None:
    seen = [folder.last_deletion()]
    folder.note_deletion()
    seen.append(folder.last_deletion())

    assert seen[0] != seen[1]
