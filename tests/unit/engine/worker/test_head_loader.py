"""Heads from real folders, good and bad, and the commands that load them."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.errors import HeadError
from engine.heads import DraftHead, HeadConfig, SharedTables, save_head
from engine.worker.head_commands import HeadCommand, write_command
from engine.worker.head_loader import HeadLoader, HeadSource, most_tokens, version_of
from engine.worker.heads import Heads

HIDDEN, VOCABULARY = 16, 30


def save(folder: Path, *, seed: int = 0, **fields: Any) -> Path:
    config = HeadConfig(
        **{
            "kind": "gated",
            "hidden_size": HIDDEN,
            "vocab_size": VOCABULARY,
            "inner_size": 16,
            "positions": 3,
            **fields,
        }
    )
    output = torch.zeros(config.vocab_size, config.hidden_size)
    save_head(DraftHead.new(config, seed=seed, output=output), folder, card={})
    return folder


@pytest.fixture
def heads() -> Heads:
    return Heads()


@pytest.fixture
def source(tmp_path: Path) -> HeadSource:
    tokenizer = tmp_path / "target"
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_text("{}", encoding="utf-8")
    model: Any = SimpleNamespace(
        get_hidden_size=lambda: HIDDEN,
        get_vocab_size=lambda: VOCABULARY,
        tokenizer=str(tokenizer),
        dtype=torch.float32,
    )
    return HeadSource(SharedTables(), model, device=torch.device("cpu"), most=3, requests=4)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


@pytest.fixture
def loader(source: HeadSource, heads: Heads, shared: Path) -> HeadLoader:
    return HeadLoader(source, heads, commands=shared, watch=None)


def changes(heads: Heads) -> list[Any]:
    found = heads.facts()["changes"]
    assert isinstance(found, list)
    return found


def load(shared: Path, folder: Path) -> None:
    write_command(shared, HeadCommand(action="load", folder=folder, by="tests"))


def test_a_head_is_loaded_and_named_by_its_contents(
    loader: HeadLoader, heads: Heads, shared: Path, tmp_path: Path
) -> None:
    folder = save(tmp_path / "head", window=4, attention_heads=2, attention_head_size=8)
    load(shared, folder)

    loader.look()

    assert heads.serving is not None
    assert heads.serving.version == version_of(folder)
    assert heads.serving.memory is not None
    assert list(heads.serving.memory.requests) == []
    (change,) = changes(heads)
    assert (change["id"], change["state"], change["by"]) == ("1", "adopted", "tests")
    assert torch.get_num_threads() >= 1


def save_medusa(folder: Path, *, seed: int) -> Path:
    """Write a head with one position in FasterDecoding's layout."""
    draws = torch.Generator().manual_seed(seed)
    shapes = {"0.0.linear.weight": (HIDDEN, HIDDEN), "0.1.weight": (VOCABULARY, HIDDEN)}
    tensors = {name: torch.randn(shape, generator=draws) for name, shape in shapes.items()}
    folder.mkdir(exist_ok=True)
    torch.save(tensors, folder / "medusa_lm_head.pt")
    (folder / "config.json").write_text('{"medusa_num_heads": 1}', encoding="utf-8")
    return folder


def test_a_file_of_torchs_is_loaded_and_names_the_version(
    loader: HeadLoader, heads: Heads, shared: Path, tmp_path: Path
) -> None:
    folder = save_medusa(tmp_path / "head", seed=1)
    load(shared, folder)

    loader.look()

    first = version_of(folder)
    assert heads.serving is not None
    assert (heads.serving.version, heads.serving.most) == (first, 1)
    assert version_of(save_medusa(folder, seed=2)) != first


def broken(folder: Path) -> Path:
    save(folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    return folder


def test_a_head_that_would_never_draft_is_refused(source: HeadSource, tmp_path: Path) -> None:
    source._always_ahead = True

    assert source.load(save(tmp_path / "blind")).head.config.window == 0
    with pytest.raises(HeadError, match="launch is ahead, but a head that looks back"):
        source.load(save(tmp_path / "looks back", window=4, attention_heads=1))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda folder: folder, "no such folder"),
        (broken, "damaged"),
        (lambda folder: save(folder, hidden_size=32), "hidden_size is 32"),
        (lambda folder: save(folder, vocab_size=31), "vocab_size is 31"),
        (lambda folder: save(folder, tokenizer_sha256="0" * 64), "tokenizer_sha256"),
        (lambda folder: save(folder, share_output=True), "shares the target's output"),
    ],
    ids=["missing", "broken", "target", "size", "tokenizer", "tables"],
)
def test_a_head_that_does_not_fit_leaves_the_old_one(
    loader: HeadLoader, heads: Heads, shared: Path, tmp_path: Path, make: Any, why: str
) -> None:
    load(shared, save(tmp_path / "first"))
    loader.look()
    serving = heads.serving

    load(shared, make(tmp_path / "second"))
    loader.look()

    assert heads.serving is serving
    change = changes(heads)[-1]
    assert change["state"] == "refused"
    assert why in change["why"]
    assert str(tmp_path) not in change["why"]
    assert heads.results["refused"] == 1


def test_any_other_error_leaves_the_old_one_too(
    loader: HeadLoader,
    source: HeadSource,
    heads: Heads,
    shared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: Path) -> None:
        raise MemoryError

    monkeypatch.setattr(source, "load", fail)
    load(shared, save(tmp_path / "head"))

    loader.look()

    (change,) = changes(heads)
    assert (change["state"], change["why"]) == ("refused", "MemoryError while it was loaded")


def test_commands_are_carried_out_once_and_in_order(
    loader: HeadLoader, heads: Heads, shared: Path, tmp_path: Path
) -> None:
    load(shared, save(tmp_path / "a", seed=1))
    load(shared, save(tmp_path / "b", seed=2))
    for action in ("forget", "unload"):
        write_command(shared, HeadCommand.model_validate({"action": action}))

    for _ in range(2):
        loader.look()

    states = [change["state"] for change in changes(heads)]
    assert states == ["adopted", "replaced", "forgotten", "unloaded"]


def test_a_changed_folder_is_loaded_once_it_is_settled(
    source: HeadSource, heads: Heads, tmp_path: Path
) -> None:
    watched = tmp_path / "watched"
    loader = HeadLoader(source, heads, commands=None, watch=watched)
    loader.look()
    save(watched, seed=1)
    loader.look()
    assert changes(heads) == []
    loader.look()
    first = heads.serving
    assert first is not None

    shutil.rmtree(watched)
    save(watched, seed=2)
    for _ in range(4):
        loader.look()

    assert [change["id"] for change in changes(heads)] == ["watch-1", "watch-2"]
    assert heads.roles == {first.version: "serving", version_of(watched): "challenger"}


@pytest.fixture
def running(loader: HeadLoader) -> Iterator[HeadLoader]:
    loader.start()
    yield loader
    loader.stop()


def test_its_thread_survives_what_it_cannot_read(
    running: HeadLoader,
    heads: Heads,
    shared: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = shared / "head-commands"
    folder.mkdir()
    (folder / "00000001.json").write_text("no command", encoding="utf-8")
    wait_until(lambda: "cannot be read" in caplog.text)

    (folder / "00000001.json").write_text(json.dumps({"action": "unload"}), encoding="utf-8")

    wait_until(lambda: bool(changes(heads)))


def wait_until(is_so: Any) -> None:
    deadline = time.monotonic() + 4
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("positions", "tied", "most"), [(2, False, 2), (5, False, 3), (2, True, 3), (1, True, 1)]
)
def test_a_pass_drafts_no_more_than_the_head_can(positions: int, tied: bool, most: int) -> None:
    config: Any = SimpleNamespace(positions=positions, tie_positions=tied)

    assert most_tokens(config, 3) == most


def forget(shared: Path, tenant: str | None) -> None:
    write_command(shared, HeadCommand(action="forget_traffic", tenant=tenant))


def test_recorded_traffic_is_deleted_on_request(
    source: HeadSource, heads: Heads, shared: Path
) -> None:
    asked: list[str | None] = []

    def delete(tenant: str | None) -> int:
        if tenant == "stuck":
            raise OSError(5, "Input/output error")
        asked.append(tenant)
        return 3

    loader = HeadLoader(source, heads, commands=shared, watch=None, delete_traffic=delete)
    for tenant in ("acme", None, "stuck"):
        forget(shared, tenant)

    loader.look()

    assert asked == ["acme", None]
    assert [(one["state"], one["why"]) for one in changes(heads)] == [
        ("deleted", "3 segments of recorded traffic"),
        ("deleted", "3 segments of recorded traffic"),
        ("failed", "not all could be deleted: Input/output error"),
    ]


def test_without_recorded_traffic_there_is_nothing_to_delete(
    loader: HeadLoader, heads: Heads, shared: Path
) -> None:
    forget(shared, "acme")

    loader.look()

    (change,) = changes(heads)
    assert (change["state"], change["why"]) == ("unchanged", "no traffic is recorded here")


def test_a_head_behind_a_link_is_known_by_where_it_lies(source: HeadSource, tmp_path: Path) -> None:
    folder = save(tmp_path / "000001")
    (tmp_path / "head").symlink_to("000001")

    loaded = source.load(tmp_path / "head")

    assert (loaded.name, loaded.folder) == ("head", folder)
