from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import TrainingError
from engine.training.shard import (
    Shard,
    beginning,
    is_outdated,
    is_shard,
    open_shard,
    save_shard,
)
from tests.unit.engine.training.tiny import some_shard


def test_rows_have_the_boundaries_of_their_document() -> None:
    shard = some_shard(2, 4, prompts=[0, 3])

    assert shard.begins.tolist() == [0, 0, 2, 2, 2, 2]
    assert shard.answers.tolist() == [0, 0, 5, 5, 5, 5]
    assert shard.ends.tolist() == [2, 2, 6, 6, 6, 6]
    assert shard.answer_tokens == 3


def test_a_saved_shard_is_loaded_unchanged(tmp_path: Path) -> None:
    shard = some_shard(4, 3, prompts=[1, 0])

    save_shard(shard, tmp_path / "a.safetensors", mark="m")
    found = open_shard(tmp_path / "a.safetensors", mark="m")

    assert torch.equal(found.hidden, shard.hidden)
    assert torch.equal(found.tokens, shard.tokens)
    for edge in ("begins", "answers", "ends"):
        assert torch.equal(getattr(found, edge), getattr(shard, edge))
    assert (found.lengths, found.prompts) == ((4, 3), (1, 0))
    assert found.kinds == ("chat", "chat")
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_shard_with_another_mark_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_shard(some_shard(4), path, mark="m")

    assert is_shard(path, mark="m")
    assert not is_shard(path, mark="n")
    with pytest.raises(TrainingError, match="run the step `hidden` again"):
        open_shard(path, mark="n")


@pytest.mark.parametrize("bytes_left", [0, 5, 60])
def test_a_damaged_shard_is_rejected(tmp_path: Path, bytes_left: int) -> None:
    path = tmp_path / "a.safetensors"
    save_shard(some_shard(4), path, mark="m")
    path.write_bytes(path.read_bytes()[:bytes_left])

    assert not is_shard(path, mark="m")
    assert not is_outdated(path)


def test_a_shard_in_the_old_format_is_outdated(tmp_path: Path) -> None:
    shard = some_shard(4)
    new, old = tmp_path / "new.safetensors", tmp_path / "old.safetensors"
    save_shard(shard, new, mark="m")
    about = {"mark": "m", "lengths": "[4]", "kinds": '["chat"]'}
    save_file({"hidden": shard.hidden, "tokens": shard.tokens}, old, metadata=about)

    assert not is_shard(old, mark="m")
    found = [is_outdated(path) for path in (old, new, tmp_path / "missing")]
    assert found == [True, False, False]


def test_the_beginning_consists_of_whole_documents() -> None:
    # The answers have 2 and 3 rows in the first shard, 4 and 4 in the second.
    shards = [some_shard(7, 3, prompts=[5, 0]), some_shard(4, 6, prompts=[0, 2])]

    def lengths(found: list[Shard]) -> list[tuple[int, ...]]:
        return [shard.lengths for shard in found]

    assert lengths(beginning(shards, 1)) == [(7,)]
    assert lengths(beginning(shards, 5)) == [(7, 3)]
    assert lengths(beginning(shards, 6)) == [(7, 3), (4,)]
    assert lengths(beginning(shards, 99)) == [(7, 3), (4, 6)]
    assert [shard.prompts for shard in beginning(shards, 99)] == [(5, 0), (0, 2)]
