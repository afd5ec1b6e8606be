import json
from pathlib import Path

import pytest

from gateway.admission import KeyLimits, KeyRing, read_records
from gateway.cli import main


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.jsonl"


def test_a_created_key_is_printed_and_works(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--tenant", "acme", "--name", "ci", "--requests-per-minute", "5"]

    assert main(["keys", "create", *arguments, "--file", str(path)]) == 0

    text = capsys.readouterr().out.strip()
    caller = KeyRing(read_records(path), defaults=KeyLimits()).recognise(f"Bearer {text}")
    assert (caller.tenant, caller.limits) == ("acme", KeyLimits(requests_per_minute=5))
    assert text not in path.read_text(encoding="utf-8")
    assert "admin" not in path.read_text(encoding="utf-8")  # earlier versions refuse it


def test_keys_are_listed_without_their_hashes(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["keys", "create", "--tenant", "zürich", "--tokens-per-minute=9", "--file", str(path)])
    capsys.readouterr()

    assert main(["keys", "list", "--file", str(path)]) == 0

    shown = capsys.readouterr().out
    (record,) = read_records(path)
    assert json.loads(shown) == {
        "id": record.key_id,
        "tenant": "zürich",
        "name": "",
        "created": record.created,
        "tokens_per_minute": 9,
    }
    assert record.secret_sha256 not in shown


def test_a_key_may_be_limited_to_models(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = ["--model", "a", "--model", "b/c"]

    main(["keys", "create", "--tenant", "acme", *models, "--file", str(path)])
    capsys.readouterr()
    main(["keys", "list", "--file", str(path)])

    assert [record.models for record in read_records(path)] == [("a", "b/c")]
    assert json.loads(capsys.readouterr().out)["models"] == ["a", "b/c"]


def test_a_key_may_have_its_own_pacing(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["keys", "create", "--tenant", "acme", "--pacing", "private", "--file", str(path)])
    capsys.readouterr()
    main(["keys", "list", "--file", str(path)])

    assert [record.pacing for record in read_records(path)] == ["private"]
    assert json.loads(capsys.readouterr().out)["pacing"] == "private"


def test_a_revoked_key_is_removed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["keys", "create", "--tenant", "acme", "--file", str(path)])
    (record,) = read_records(path)

    assert main(["keys", "revoke", record.key_id, "--file", str(path)]) == 0
    assert read_records(path) == []
    assert main(["keys", "revoke", record.key_id, "--file", str(path)]) == 1
    assert f"has no key {record.key_id}" in capsys.readouterr().err


def test_an_empty_file_lists_nothing(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "list", "--file", str(path)]) == 0
    assert capsys.readouterr().out == ""


def test_the_profile_names_the_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = path.with_name("p.yaml")
    profile.write_text(f"gateway: {{keys: {{file: {path}}}}}", encoding="utf-8")

    assert main(["keys", "create", "--tenant", "acme", "--config", str(profile)]) == 0
    assert len(read_records(path)) == 1


def test_without_a_key_file_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "list"]) == 2
    assert "no key file" in capsys.readouterr().err


def test_a_damaged_file_is_not_changed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text("oops\n", encoding="utf-8")

    assert main(["keys", "create", "--tenant", "acme", "--file", str(path)]) == 2
    assert path.read_text(encoding="utf-8") == "oops\n"
    assert capsys.readouterr().err.endswith("line 1 is not a key record\n")


@pytest.mark.parametrize("count", ["0", "-1", "many", "1.5"])
def test_a_limit_is_at_least_1(path: Path, count: str) -> None:
    arguments = ["keys", "create", "--tenant", "a", f"--requests-per-minute={count}"]

    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--file", str(path)])

    assert caught.value.code == 2
    assert not path.exists()


def test_a_key_may_be_an_administrators(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["keys", "create", "--tenant", "acme", "--admin", "--file", str(path)])
    text = capsys.readouterr().out.strip()
    main(["keys", "list", "--file", str(path)])

    assert json.loads(capsys.readouterr().out)["admin"] is True
    assert '"admin": true' in path.read_text(encoding="utf-8")
    caller = KeyRing(read_records(path), defaults=KeyLimits()).recognise(f"Bearer {text}")
    assert caller.is_admin
