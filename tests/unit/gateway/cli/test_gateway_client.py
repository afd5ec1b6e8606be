"""How commands find a gateway, and read its answers."""

import argparse
from pathlib import Path

import httpx
import pytest

from gateway.cli.gateway_client import (
    GatewayAnswerError,
    add_client_arguments,
    gateway_client,
    member_of,
)


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_client_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:81"), ("'::'", "http://[::1]:81")],
    ids=["loopback", "all"],
)
def test_the_profile_has_the_address(tmp_path: Path, host: str, url: str) -> None:
    profile = tmp_path / "profile.yaml"
    profile.write_text(
        f"gateway: {{host: {host}, port: 81, allow_without_keys: true}}", encoding="utf-8"
    )

    with gateway_client(parsed("--config", str(profile))) as client:
        assert str(client.base_url) == url


def test_a_key_file_comes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "environment")
    file = tmp_path / "key"
    file.write_text("from-file\n", encoding="utf-8")

    with gateway_client(parsed("--url", "http://h", "--key-file", str(file))) as client:
        assert client.headers["authorization"] == "Bearer from-file"
    with gateway_client(parsed("--url", "http://h")) as client:
        assert client.headers["authorization"] == "Bearer environment"


def test_a_member_is_read_and_an_error_told() -> None:
    assert member_of(httpx.Response(200, json={"canary": {"a": 1}}), "canary") == {"a": 1}
    with pytest.raises(GatewayAnswerError, match="no right"):
        member_of(httpx.Response(403, json={"error": {"message": "no right"}}), "canary")
    with pytest.raises(GatewayAnswerError, match="answered 200; is this a specgate"):
        member_of(httpx.Response(200, json={}), "canary")
    with pytest.raises(GatewayAnswerError, match="answered 502"):
        member_of(httpx.Response(502, text="<html>"), "canary")
