import argparse
from pathlib import Path

import httpx
import pytest

from gateway.cli.connection import AnswerError, add_connection_arguments, connect, member_of
from gateway.errors import ConfigError


def chosen(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_connection_arguments(parser, key="a key")
    return parser.parse_args(arguments)


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_the_url_and_the_key_are_those_of_the_arguments(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sg-secret\n", encoding="utf-8")

    arguments = chosen("--url", "http://g:1", "--key-file", str(tmp_path / "key"))
    with connect(arguments, timeout_seconds=2.0) as client:
        assert str(client.base_url) == "http://g:1"
        assert client.headers["authorization"] == "Bearer sg-secret"
        assert client.timeout.read == 2.0


def test_a_key_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sg-other")

    with connect(chosen("--url", "http://g:1"), timeout_seconds=2.0) as client:
        assert client.headers["authorization"] == "Bearer sg-other"


@pytest.mark.parametrize(
    ("host", "reached"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("127.0.0.2", "127.0.0.2")]
)
def test_without_a_url_it_is_the_profiles_address(tmp_path: Path, host: str, reached: str) -> None:
    profile = tmp_path / "p.yaml"
    settings = f"host: '{host}', port: 81, allow_without_keys: true"
    profile.write_text(f"gateway: {{{settings}}}", encoding="utf-8")

    with connect(chosen("--config", str(profile)), timeout_seconds=2.0) as client:
        assert str(client.base_url) == f"http://{reached}:81"
        assert "authorization" not in client.headers


def test_a_key_file_that_is_not_there_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match="/nowhere"):
        connect(chosen("--url", "http://g:1", "--key-file", "/nowhere"), timeout_seconds=2.0)


def test_a_member_is_read_and_an_error_told() -> None:
    assert member_of(httpx.Response(200, json={"canary": {"a": 1}}), "canary") == {"a": 1}
    with pytest.raises(AnswerError, match="no right"):
        member_of(httpx.Response(403, json={"error": {"message": "no right"}}), "canary")
    with pytest.raises(AnswerError, match="answered 200; is this a specgate"):
        member_of(httpx.Response(200, json={}), "canary")
    with pytest.raises(AnswerError, match="answered 502"):
        member_of(httpx.Response(502, text="<html>"), "canary")
