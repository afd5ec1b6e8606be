from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import HeadFileError
from engine.heads.stored import StoredWeights, parse_config


def write(folder: Path, name: str = "model.safetensors", **tensors: torch.Tensor) -> None:
    save_file(tensors, folder / name)


def test_tensors_of_all_files_are_found(tmp_path: Path) -> None:
    write(tmp_path, "model-00001-of-00002.safetensors", a=torch.ones(2))
    write(tmp_path, "model-00002-of-00002.safetensors", b=torch.zeros(3))

    with StoredWeights(tmp_path) as stored:
        assert "a" in stored
        assert stored.take("a", (2,)).tolist() == [1, 1]
        assert stored.take("b", (3,)).tolist() == [0, 0, 0]
        stored.finish()


@pytest.mark.parametrize(
    ("name", "save"),
    [("a.safetensors", save_file), ("a.pt", torch.save)],
    ids=["safetensors", "pt"],
)
def test_a_file_that_is_written_over_changes_no_tensor(
    tmp_path: Path, name: str, save: Callable[[object, Path], None]
) -> None:
    path = tmp_path / name
    save({"a": torch.ones(4096)}, path)
    with StoredWeights(tmp_path, files=("a.*",)) as stored:
        tensor = stored.take("a", (4096,))

    with path.open("r+b") as file:  # as cp does
        file.write(bytes(path.stat().st_size))

    assert tensor.sum() == 4096


def test_a_name_with_and_without_prefix_is_rejected(tmp_path: Path) -> None:
    write(tmp_path, **{"speculator.a": torch.ones(2), "a": torch.zeros(2)})

    with pytest.raises(HeadFileError, match=r"found a twice"):
        StoredWeights(tmp_path, prefix="speculator.").__enter__()


@pytest.mark.parametrize(
    ("tensor", "problem"),
    [
        (torch.ones(3), r"model.safetensors: a: found shape \(3,\), expected \(2,\)"),
        (torch.ones(2, dtype=torch.int32), "a: found torch.int32, expected floats"),
        (torch.tensor([1.0, float("nan")]), "a: found NaN or infinity"),
        (torch.tensor([1.0, float("inf")]), "a: found NaN or infinity"),
    ],
    ids=["shape", "dtype", "nan", "infinity"],
)
def test_an_invalid_tensor_is_named(tmp_path: Path, tensor: torch.Tensor, problem: str) -> None:
    write(tmp_path, a=tensor)

    with StoredWeights(tmp_path) as stored, pytest.raises(HeadFileError, match=problem):
        stored.take("a", (2,))


def test_a_missing_tensor_is_named_with_those_found(tmp_path: Path) -> None:
    write(tmp_path, **{f"w{number}": torch.ones(1) for number in range(10)})

    with (
        StoredWeights(tmp_path) as stored,
        pytest.raises(HeadFileError, match=r"no weight a, .* \(2,\); found w0, .* and 2 more"),
    ):
        stored.take("a", (2,))


def test_tied_tensors_may_be_stored_once_or_repeatedly(tmp_path: Path) -> None:
    write(tmp_path, a=torch.ones(1), b=torch.ones(1))

    with StoredWeights(tmp_path) as stored:
        assert stored.take_tied(["a", "b", "c"], (1,)).tolist() == [1]
        stored.finish()


def test_tied_tensors_that_differ_are_rejected(tmp_path: Path) -> None:
    write(tmp_path, a=torch.ones(1), b=torch.zeros(1))

    with (
        StoredWeights(tmp_path) as stored,
        pytest.raises(HeadFileError, match=r"b: found other values than a"),
    ):
        stored.take_tied(["a", "b"], (1,))


@pytest.mark.parametrize("size", [0, 7, 100])
def test_damaged_file_is_named(tmp_path: Path, size: int) -> None:
    write(tmp_path, a=torch.ones(64))
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])

    with pytest.raises(HeadFileError, match=r"model.safetensors: damaged"):
        StoredWeights(tmp_path).__enter__()


FILES = ("best.safetensors", "best.pt", "*.safetensors")


def test_files_of_the_first_pattern_that_matches_are_read(tmp_path: Path) -> None:
    write(tmp_path, a=torch.ones(1))
    torch.save({"b": torch.ones(2), "epoch": 3}, tmp_path / "best.pt")

    with StoredWeights(tmp_path, files=FILES) as stored:
        assert "a" not in stored
        assert stored.shape("b") == (2,)
        assert stored.take("b", (2,)).tolist() == [1, 1]
        stored.finish()

    write(tmp_path, "best.safetensors", c=torch.ones(1))
    with StoredWeights(tmp_path, files=FILES) as stored:
        assert "b" not in stored
        assert "c" in stored


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:100]),
        lambda path: path.write_bytes(b""),
        lambda path: torch.save([torch.ones(1)], path),
        lambda path: torch.save({"a": Path("code")}, path),
    ],
    ids=["cut", "empty", "a list", "an object that is no tensor"],
)
def test_a_damaged_file_of_torchs_is_named(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    path = tmp_path / "best.pt"
    torch.save({"a": torch.ones(64)}, path)
    damage(path)

    with pytest.raises(HeadFileError, match=r"best.pt: damaged, expected a state dict"):
        StoredWeights(tmp_path, files=FILES).__enter__()


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"{", "damaged"), (b"\xff", "damaged"), (b"[1]", "found list, expected a JSON object")],
    ids=["cut", "bytes", "list"],
)
def test_a_config_that_is_no_object_is_rejected(content: bytes, problem: str) -> None:
    with pytest.raises(HeadFileError, match=problem):
        parse_config(Path("config.json"), content)
