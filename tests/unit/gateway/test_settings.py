import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from gateway.errors import ConfigError
from gateway.settings import (
    PROCESS_VARIABLE,
    GatewaySettings,
    cache_dir,
    child_environment,
    is_loopback,
    load_settings,
    process_position,
    read_secret,
)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    return tmp_path / "profile.yaml"


def write(profile: Path, **section: Any) -> Path:
    profile.write_text(yaml.safe_dump({"gateway": section}), encoding="utf-8")
    return profile


def complaint(profile: Path | None, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(profile, environ or {})
    return str(caught.value)


def test_without_profile_and_environment_the_defaults_apply() -> None:
    assert load_settings(None, {}) == GatewaySettings()


def test_the_environment_overrides_the_profile(profile: Path) -> None:
    write(profile, port=1, keys={"file": "a", "reload_seconds": 5})
    environ = {"SPECGATE_GATEWAY__PORT": "2", "SPECGATE_GATEWAY__KEYS__FILE": "b"}

    settings = load_settings(profile, environ)

    assert (settings.port, settings.keys.file) == (2, Path("b"))
    assert (settings.keys.reload_seconds, settings.keys.tokens_per_minute) == (5, None)


def test_overrides_take_precedence_over_the_environment(profile: Path) -> None:
    write(profile, port=1, drain={"finish_seconds": 1})
    environ = {"SPECGATE_GATEWAY__PORT": "2"}

    settings = load_settings(
        profile, environ, overrides={"port": "3", "drain.finish_seconds": "10"}
    )

    assert (settings.port, settings.drain.finish_seconds) == (3, 10)


def test_lists_in_the_environment_are_json() -> None:
    environ = {"SPECGATE_GATEWAY__WORKERS": '["http://a:1", "http://b:1"]'}

    assert load_settings(None, environ).workers == ("http://a:1", "http://b:1")


def test_other_variables_are_ignored() -> None:
    environ = {
        "PATH": "/bin",
        "SPECGATE_ENGINE__MODEL": "m",
        PROCESS_VARIABLE: "0:3",
        "specgate_lower": "x",
    }

    assert load_settings(None, environ) == GatewaySettings()


@pytest.mark.parametrize(
    "name",
    [
        "SPECGATE_GATEWAY__PROT",
        "SPECGATE_GATEWAY__KEYS__FIEL",
        "SPECGATE_GATEWAY__PORT__X",
        "SPECGATE_GATEWAY__",
        "SPECGATE_PORT",
        "SPECGATE_GATEWAY_PORT",
    ],
)
def test_an_unknown_variable_is_refused_by_name(name: str) -> None:
    assert complaint(None, {name: "1"}) == f"unknown environment variable {name}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"gateway: {prot: 1}", "gateway.prot: Extra inputs are not permitted"),
        (b"gateway: {keys: {fiel: x}}", "gateway.keys.fiel: Extra inputs are not permitted"),
        (b"gateway: {1: 2}", "gateway.1: Extra inputs are not permitted"),
        (b"gateway: {port: x}", "gateway.port: Input should be a valid integer"),
        (b"gateway: {port: 70000}", "gateway.port: Input should be less than or equal to 65535"),
        (b"gateway: {keys: }", "gateway.keys: "),
        (b"gateway: []", "gateway must hold settings"),
        (b"gatway: {}", "unknown section gatway"),
        (b"[1]", "must hold the sections engine and gateway"),
        (b"a: b: c", "is not YAML"),
        (b"gateway: !!python/object:os.system {}", "is not YAML"),
        (b"\xff", "is not UTF-8"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_error_in_the_profile_is_refused_with_its_position(
    profile: Path, text: bytes, words: str
) -> None:
    profile.write_bytes(text)

    assert words in complaint(profile)


@pytest.mark.parametrize("text", [b"", b"gateway:", b"engine: {anything: 1}"], ids=repr)
def test_a_profile_may_omit_the_gateway(profile: Path, text: bytes) -> None:
    profile.write_bytes(text)

    assert load_settings(profile, {}) == GatewaySettings()


def test_a_missing_profile_is_named(profile: Path) -> None:
    assert complaint(profile) == f"{profile}: No such file or directory"


def test_every_error_has_its_own_line(profile: Path) -> None:
    write(profile, port=-1, processes=0, drain={"finish_seconds": 0})

    lines = complaint(profile).splitlines()

    assert [line.partition(":")[0] for line in lines] == [
        "gateway.port",
        "gateway.processes",
        "gateway.drain.finish_seconds",
    ]


@pytest.mark.parametrize("value", ["http://a", "[", '{"x": 1}'])
def test_a_variable_that_should_be_json_is_refused(value: str) -> None:
    assert "workers" in complaint(None, {"SPECGATE_GATEWAY__WORKERS": value})


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        (["a:8000"], "a:8000 is no http://, https:// or dns+http:// URL"),
        (["ftp://a"], "ftp://a is no http://, https:// or dns+http:// URL"),
        (["http://"], "http:// is no http://, https:// or dns+http:// URL"),
        (["http://a/v1"], "http://a/v1 must end after host and port"),
        (["http://a?x=1"], "must end after host and port"),
        (["http://a:99999"], "Port out of range"),
        (["http://a:0"], "http://a:0 is no http://, https:// or dns+http:// URL"),
        (["http://a:1", "http://b:1", "http://a:1/"], "listed twice"),
    ],
    ids=str,
)
def test_an_invalid_worker_url_is_refused(profile: Path, urls: list[str], words: str) -> None:
    assert words in complaint(write(profile, workers=urls))


def test_a_password_in_a_url_is_refused_and_not_repeated(profile: Path) -> None:
    text = complaint(write(profile, workers=["http://me:hunter2@a:1"]))

    assert "upstream.api_key_file" in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    "path",
    ["v1/x", "", "/", "/v1/", "/v1//x", "/v1/{x}", "/v1/x?a=1", "/v1/x#a", "/v1/%2e", "/v1/../x"],
)
def test_a_forwarded_path_is_a_plain_path(profile: Path, path: str) -> None:
    assert f"{path} must be a plain path" in complaint(write(profile, forward_paths=[path]))


def test_a_forwarded_path_is_listed_once(profile: Path) -> None:
    assert "listed twice" in complaint(write(profile, forward_paths=["/pooling", "/pooling"]))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
        ("localhost.example.org", False),
        ("", False),
    ],
)
def test_loopback_addresses_are_recognised(profile: Path, host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback
    assert load_settings(write(profile, host=host, keys={"file": "k"}), {}).host == host
    assert load_settings(write(profile, host=host, allow_without_keys=True), {}).host == host


def test_a_public_address_without_keys_is_refused(profile: Path) -> None:
    assert "there are no keys" in complaint(write(profile, host="0.0.0.0"))


def sections(model: type[BaseModel]) -> list[type[BaseModel]]:
    below = [
        inner
        for field in model.model_fields.values()
        if isinstance(field.default, BaseModel)
        for inner in sections(type(field.default))
    ]
    return [model, *below]


@pytest.mark.parametrize("section", sections(GatewaySettings), ids=lambda section: section.__name__)
def test_every_field_has_a_description_and_is_frozen(section: type[BaseModel]) -> None:
    values = [field for field in section.model_fields.values() if not _is_section(field.default)]

    assert all(field.description for field in values)
    assert section.model_config.get("frozen")
    assert section.model_config.get("extra") == "forbid"


def _is_section(default: object) -> bool:
    return isinstance(default, BaseModel)


def test_a_secret_is_read_from_its_file_and_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("hunter2\n", encoding="utf-8")

    secret = read_secret(path)

    assert secret is not None
    assert secret.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(secret)
    assert read_secret(None) is None


@pytest.mark.parametrize(
    "origin", ["*", "https://chat.example.com", "http://localhost:5173", "tauri://localhost"]
)
def test_an_origin_is_accepted(profile: Path, origin: str) -> None:
    settings = load_settings(write(profile, cors={"origins": [origin]}), {})

    assert settings.cors.origins == (origin,)


@pytest.mark.parametrize(
    "origin", ["https://chat.example.com/", "chat.example.com", "null", "", "https://*/a"]
)
def test_what_no_browser_sends_as_an_origin_is_refused(profile: Path, origin: str) -> None:
    assert "gateway.cors.origins.0" in complaint(write(profile, cors={"origins": [origin]}))


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No such file"), (b" \n", "is empty"), (b"\xff", "is not UTF-8")],
    ids=["missing", "empty", "not-utf-8"],
)
def test_a_secret_that_cannot_be_read_is_refused(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError, match=words):
        read_secret(path)


def test_a_child_process_knows_its_position(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(PROCESS_VARIABLE, raising=False)
    assert process_position() == (0, None)

    environ = child_environment(
        index=3, ledger=17, metrics_dir=tmp_path, overrides={"supervisor.log_file": "f"}
    )
    monkeypatch.setenv(PROCESS_VARIABLE, environ[PROCESS_VARIABLE])

    assert process_position() == (3, 17)
    assert environ["PROMETHEUS_MULTIPROC_DIR"] == str(tmp_path)
    assert environ["SPECGATE_GATEWAY__SUPERVISOR__LOG_FILE"] == "f"
    assert environ["PATH"] == os.environ["PATH"]


def test_the_cache_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_dir() == Path("/somewhere/specgate")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_dir() == Path("/home/me/.cache/specgate")


@pytest.mark.parametrize(
    "url",
    [
        *("redis://store:6379/0", "redis://user@store", "redis://[::1]:6379", "rediss://store/"),
        "unix:///run/redis.sock",
    ],
)
def test_a_store_is_named_by_a_url(url: str) -> None:
    assert GatewaySettings.model_validate({"limits": {"store": url}}).limits.store == url


@pytest.mark.parametrize(
    "url",
    [
        *("http://store", "store:6379", "redis://", "unix://run/redis.sock", "redis://store:x"),
        *("redis://:secret@store", "redis://:secret", "redis://store?password=secret"),
    ],
)
def test_a_wrong_store_is_refused_and_its_password_is_not_shown(url: str) -> None:
    shown = complaint(None, {"SPECGATE_GATEWAY__LIMITS__STORE": url})

    assert shown.startswith("gateway.limits.store: String should match pattern")
    assert "secret" not in shown


@pytest.mark.parametrize(
    ("value", "store"),
    [
        *((same, same) for same in ("sqlite", "off", "postgresql://u@db:5432/name")),
        ("postgres://db/name?sslmode=verify-full", "postgres://db/name?sslmode=verify-full"),
        ("postgresql://u@/name?host=/run/pg", "postgresql://u@/name?host=/run/pg"),
        (False, "off"),
    ],
    ids=str,
)
def test_responses_are_kept_in_a_file_a_database_or_nowhere(value: object, store: str) -> None:
    chosen = GatewaySettings.model_validate({"responses": {"store": value}})

    assert chosen.responses.store == store


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("on", "should match pattern"),
        ("mysql://db/name", "should match pattern"),
        ("postgresql://u:secret@db/name", "should match pattern"),
        ("postgresql://u@db/name?password=secret", "belongs into password_file"),
    ],
)
def test_a_wrong_store_of_responses_is_refused_without_its_password(value: str, words: str) -> None:
    shown = complaint(None, {"SPECGATE_GATEWAY__RESPONSES__STORE": value})

    assert shown.startswith("gateway.responses")
    assert words in shown
    assert "secret" not in shown


def test_the_file_of_responses_is_in_the_cache_folder_unless_it_is_named(tmp_path: Path) -> None:
    named = GatewaySettings.model_validate({"responses": {"path": tmp_path / "r"}})

    assert named.responses.file == tmp_path / "r"
    assert GatewaySettings().responses.file.name == "responses.sqlite"
