import json
import logging
import stat
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, models

from engine.suffix import SuffixIndex
from engine.worker.share import Share
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


def sharing(folder: Path, name: str, suffix_index: SuffixIndex) -> Snapshots:
    """Snapshots of the worker `name`, with a disk of its own and a place that all share."""
    share = Share(str(folder / "share"), MODEL, name)
    return Snapshots(suffix_index, folder / name / "model.0", MODEL, share)


def run_once(folder: Path, name: str, *answers: list[int]) -> SuffixIndex:
    """Start a worker, have it write answers, and stop it."""
    ran = index()
    snapshots = sharing(folder, name, ran)
    snapshots.load()
    snapshots.load_shared()
    for number, answer in enumerate(answers):
        ran.start(f"{name} {number}", "t", [99])
        ran.extend(f"{name} {number}", answer)
        ran.finish(f"{name} {number}", keep=True)
    snapshots.save()
    snapshots.share()
    return ran


def test_a_new_worker_starts_with_the_answers_of_all_others(tmp_path: Path) -> None:
    first = run_once(tmp_path, "a", [1, 2, 3, 4, 5])
    run_once(tmp_path, "b", [11, 12, 13, 14, 15])

    new = run_once(tmp_path, "c")

    assert new.stats().tokens == 2 * first.stats().tokens
    for begin in (1, 11):
        new.start("r", "t", [77, begin, begin + 1, begin + 2])
        assert new.propose("r", 2).tokens == [begin + 3, begin + 4]
        new.finish("r", keep=False)


def test_workers_that_restart_in_turn_do_not_pile_up_the_same_answers(tmp_path: Path) -> None:
    run_once(tmp_path, "a", [1, 2, 3, 4, 5])
    tokens = run_once(tmp_path, "b", [11, 12, 13, 14, 15]).stats().tokens

    for name in "abcab":
        assert run_once(tmp_path, name).stats().tokens == tokens


def test_a_damaged_shared_file_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_once(tmp_path, "a", [1, 2, 3, 4, 5])
    (file,) = (tmp_path / "share").rglob("a.suffix")
    file.write_bytes(file.read_bytes()[:-1])
    expected = run_once(tmp_path, "b", [11, 12, 13, 14, 15]).stats().tokens

    assert run_once(tmp_path, "c").stats().tokens == expected
    assert "the shared snapshot a.suffix is left out" in caplog.text
    assert not list(tmp_path.rglob("*.shared"))


def test_what_is_shared_already_is_not_copied_again(tmp_path: Path) -> None:
    answers = index([1, 2, 3])
    snapshots = sharing(tmp_path, "a", answers)
    snapshots.share()
    assert not (tmp_path / "share").exists()  # nothing was saved yet

    snapshots.save()
    snapshots.share()
    (file,) = (tmp_path / "share").rglob("*.suffix")
    file.unlink()
    snapshots.share()

    assert not file.exists()


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
