"""How commands call a running gateway: its address, a key, and what it answers."""

import argparse
from pathlib import Path
from typing import Any

import httpx

from gateway.cli.profiles import add_config_argument, find_profile
from gateway.settings import client_key, load_settings, read_secret

_SECONDS = 30.0


class GatewayAnswerError(Exception):
    """The gateway refuses, or is none; the message is one line."""


def add_client_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe how to find the gateway."""
    parser.add_argument("--url", help="of the gateway (default: the profile's address)")
    parser.add_argument(
        "--key-file", type=Path, help="file with an administrator's key (or OPENAI_API_KEY)"
    )
    add_config_argument(parser)


def gateway_client(chosen: argparse.Namespace) -> httpx.Client:
    """A client of the gateway; the caller closes it.

    Raises:
        ConfigError: The profile or the key file cannot be read.
    """
    key = client_key() if chosen.key_file is None else read_secret(chosen.key_file)
    headers = {} if key is None else {"authorization": f"Bearer {key.get_secret_value()}"}
    url = chosen.url or _address(find_profile(chosen.config))
    return httpx.Client(base_url=url, headers=headers, timeout=_SECONDS, trust_env=False)


def member_of(answer: httpx.Response, name: str) -> Any:
    """A member of the JSON object in an answer.

    Raises:
        GatewayAnswerError: It is an error, or has no such member.
    """
    try:
        body = answer.json()
        if answer.is_success:
            return body[name]
        message = body["error"]["message"]
    except (ValueError, KeyError, TypeError) as error:
        raise GatewayAnswerError(f"answered {answer.status_code}; is this a specgate?") from error
    raise GatewayAnswerError(message)


def _address(profile: Path) -> str:
    settings = load_settings(profile)
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://{host}:{settings.port}"
