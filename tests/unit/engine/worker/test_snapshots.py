import json
import logging
import stat
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, models

from engine.suffix import SuffixIndex
from engine.worker.snapshots import Snapshots, identity_of

MODEL = "org/model, tokenizer 1"


def index(*answers: list[int]) -> SuffixIndex:
    made = SuffixIndex(1 << 20, salt=1)
    for number, answer in enumerate(answers):
        made.start(str(number), "t", [99])
        made.extend(str(number), answer)
        made.finish(str(number), keep=True)
    return made


def test_a_saved_index_is_loaded_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "suffix" / "model.0"
    before = index([1, 2, 3, 4, 5])
    Snapshots(before, path, MODEL).save()

    warm = index()
    Snapshots(warm, path, MODEL).load()

    assert warm.stats().tokens == before.stats().tokens
    warm.start("r", "t", [77, 1, 2, 3])
    assert warm.propose("r", 2, min_survival=0.0).tokens == [4, 5]


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "suffix" / "model.0"

    Snapshots(index([1, 2]), path, MODEL).save()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_first_start_is_cold_and_silent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Snapshots(index(), tmp_path / "none", MODEL).load()

    assert not caplog.records


def test_a_damaged_file_causes_a_cold_start_and_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "model.0"
    Snapshots(index([1, 2, 3]), path, MODEL).save()
    path.write_bytes(path.read_bytes()[:-1])
    cold = index()

    with caplog.at_level(logging.WARNING):
        Snapshots(cold, path, MODEL).load()

    assert cold.stats().tokens == 0
    assert "the suffix index starts empty" in caplog.text


def test_an_unchanged_index_is_not_saved_again(tmp_path: Path) -> None:
    path = tmp_path / "model.0"
    saved = index([1, 2, 3])
    snapshots = Snapshots(saved, path, MODEL)
    snapshots.save()
    path.unlink()

    snapshots.save()
    assert not path.exists()

    saved.start("r", "t", [9])
    saved.extend("r", [9])
    saved.finish("r", keep=True)
    snapshots.save()
    assert path.exists()


def test_a_loaded_index_is_not_saved_again(tmp_path: Path) -> None:
    path = tmp_path / "model.0"
    Snapshots(index([1, 2, 3]), path, MODEL).save()
    again = Snapshots(index(), path, MODEL)
    again.load()
    path.unlink()

    again.save()

    assert not path.exists()


def test_a_snapshot_of_another_model_is_refused_and_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "model.0"
    Snapshots(index([1, 2, 3]), path, MODEL).save()
    other = index()
    snapshots = Snapshots(other, path, "org/other, tokenizer 2")

    with caplog.at_level(logging.WARNING):
        snapshots.load()

    assert other.stats().tokens == 0
    assert '"org/model, tokenizer 1" with 2147483648 tokens' in caplog.text
    assert '"org/other, tokenizer 2" with 2147483648 tokens' in caplog.text
    snapshots.save()
    again = index()
    Snapshots(again, path, "org/other, tokenizer 2").load()
    assert len(caplog.records) == 1


def test_a_snapshot_of_a_larger_vocabulary_never_reaches_a_smaller_model(tmp_path: Path) -> None:
    path = tmp_path / "model.0"
    Snapshots(index([1, 2, 3, 122_803, 4]), path, MODEL).save()
    small = SuffixIndex(1 << 20, vocabulary=49_152, salt=1)

    Snapshots(small, path, MODEL).load()

    small.start("r", "t", [77, 1, 2, 3])
    assert small.propose("r", 2).tokens == []


def model_config(folder: Path, words: Sequence[str], **changes: object) -> SimpleNamespace:
    """What vLLM's configuration says of a model with these words."""
    folder.mkdir()
    numbers = {word: number for number, word in enumerate(words)}
    Tokenizer(models.WordLevel(numbers, unk_token=words[0])).save(str(folder / "tokenizer.json"))
    config = json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"})
    (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")
    given: dict[str, object] = {
        "model": "org/model",
        "revision": None,
        "tokenizer": str(folder),
        "skip_tokenizer_init": False,
        "hf_config": None,
        "runner_type": "generate",
        "tokenizer_mode": "auto",
        "tokenizer_revision": None,
        "trust_remote_code": False,
    }
    return SimpleNamespace(**given | changes)


def test_the_identity_says_what_token_ids_mean(tmp_path: Path) -> None:
    words = ["[unk]", "a", "b", "ü"]
    first = identity_of(model_config(tmp_path / "first", words))

    assert identity_of(model_config(tmp_path / "moved", words)) == first
    assert identity_of(model_config(tmp_path / "order", ["[unk]", "b", "a", "ü"])) != first
    assert identity_of(model_config(tmp_path / "longer", [*words, "c"])) != first
    assert identity_of(model_config(tmp_path / "model", words, model="org/b")) != first
    assert identity_of(model_config(tmp_path / "revision", words, revision="v2")) != first
    bare = identity_of(model_config(tmp_path / "bare", words, skip_tokenizer_init=True))
    assert bare == "org/model@main, tokenizer none"
