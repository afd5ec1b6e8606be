"""How a command reaches a running gateway: its URL and its key."""

import argparse
from pathlib import Path
from typing import Any

import httpx

from gateway.cli.profiles import add_config_argument, find_profile
from gateway.settings import client_key, load_settings, read_secret


class AnswerError(Exception):
    """The gateway refuses, or what answers is none; the message is one line."""


def add_connection_arguments(parser: argparse.ArgumentParser, *, key: str) -> None:
    """Give a command `--url`, `--key-file` and `--config`.

    Args:
        parser: Of the command.
        key: What kind of key is in the file, for the help.
    """
    parser.add_argument("--url", help="of the gateway (default: the profile's address)")
    parser.add_argument("--key-file", type=Path, help=f"file with {key} (or OPENAI_API_KEY)")
    add_config_argument(parser)


def connect(chosen: argparse.Namespace, *, timeout_seconds: float) -> httpx.Client:
    """Make a client; it connects when it is used.

    Args:
        chosen: The arguments above.
        timeout_seconds: Longest wait for an answer.

    Raises:
        ConfigError: The profile or the key file cannot be used.
    """
    return httpx.Client(
        base_url=url_of(chosen),
        headers=key_headers(chosen),
        timeout=timeout_seconds,
        trust_env=False,
    )


def url_of(chosen: argparse.Namespace) -> str:
    """The gateway's URL, without a slash at the end.

    Raises:
        ConfigError: The profile cannot be used.
    """
    return (chosen.url or _address(find_profile(chosen.config))).rstrip("/")


def key_headers(chosen: argparse.Namespace) -> dict[str, str]:
    """The header with the key; empty without one.

    Raises:
        ConfigError: The key file cannot be used.
    """
    key = client_key() if chosen.key_file is None else read_secret(chosen.key_file)
    return {} if key is None else {"authorization": f"Bearer {key.get_secret_value()}"}


def member_of(answer: httpx.Response, name: str) -> Any:
    """A member of the JSON object in an answer.

    Raises:
        AnswerError: It is an error, or has no such member.
    """
    try:
        body = answer.json()
        if answer.is_success:
            return body[name]
        message = body["error"]["message"]
    except (ValueError, KeyError, TypeError) as error:
        raise AnswerError(f"answered {answer.status_code}; is this a specgate?") from error
    raise AnswerError(message)


def _address(profile: Path) -> str:
    settings = load_settings(profile)
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://{host}:{settings.port}"
