from pathlib import Path

import pytest
import torch

from engine.errors import TrainingError
from engine.training.shard import Shard, beginning, is_shard, open_shard, save_shard
from tests.unit.engine.training.tiny import some_shard


def test_each_row_knows_where_its_answer_ends() -> None:
    assert some_shard(2, 3).ends.tolist() == [2, 2, 5, 5, 5]


def test_a_shard_comes_back_as_it_was(tmp_path: Path) -> None:
    shard = some_shard(4, 3)

    save_shard(shard, tmp_path / "a.safetensors", mark="m")
    found = open_shard(tmp_path / "a.safetensors", mark="m")

    assert torch.equal(found.hidden, shard.hidden)
    assert torch.equal(found.tokens, shard.tokens)
    assert torch.equal(found.ends, shard.ends)
    assert (found.lengths, found.kinds) == ((4, 3), ("chat", "chat"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_shard_of_another_text_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_shard(some_shard(4), path, mark="m")

    assert is_shard(path, mark="m")
    assert not is_shard(path, mark="n")
    with pytest.raises(TrainingError, match="run the step `hidden` again"):
        open_shard(path, mark="n")


@pytest.mark.parametrize("bytes_left", [0, 5, 60])
def test_a_damaged_shard_is_none(tmp_path: Path, bytes_left: int) -> None:
    path = tmp_path / "a.safetensors"
    save_shard(some_shard(4), path, mark="m")
    path.write_bytes(path.read_bytes()[:bytes_left])

    assert not is_shard(path, mark="m")


def test_the_beginning_holds_whole_answers_of_one_shard_or_more() -> None:
    shards = [some_shard(2, 3), some_shard(4, 4)]

    def lengths(found: list[Shard]) -> list[tuple[int, ...]]:
        return [shard.lengths for shard in found]

    assert lengths(beginning(shards, 1)) == [(2,)]
    assert lengths(beginning(shards, 5)) == [(2, 3)]
    assert lengths(beginning(shards, 6)) == [(2, 3), (4,)]
    assert lengths(beginning(shards, 99)) == [(2, 3), (4, 4)]
