"""Asks a server for one answer, with the log-probabilities of its tokens."""

import json
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from gateway.verify.prompts import Prompt

_ALTERNATIVES = 5
_MOST_TOKENS = 128
_EXCERPT = 200


class VerifyError(Exception):
    """The server cannot be verified; the message is one line."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two ways to ask.

    Attributes:
        name: In reports.
        url: Of the server.
        members: Added to each request.
        is_ours: Whether it is a specgate.
    """

    name: str
    url: str
    members: Mapping[str, Any] = field(default_factory=dict)
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    """A token of an answer.

    Attributes:
        text: Its bytes.
        logprob: Its log-probability.
        alternatives: The likeliest tokens at its place with theirs.
    """

    text: bytes
    logprob: float
    alternatives: Mapping[bytes, float]


@dataclass(frozen=True, slots=True)
class Asked:
    """An answer.

    Attributes:
        tokens: Of it, in order.
        message: What a client gets: content, tool calls and whatever else the message has.
        finish_reason: Why it ended.
        completion_tokens: By the server's usage.
        seconds: From request to end.
        refusal: Why there is no answer; the other attributes are then empty.
    """

    tokens: tuple[Token, ...] = ()
    message: Mapping[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    completion_tokens: int = 0
    seconds: float = 0.0
    refusal: str | None = None


async def find_model(client: httpx.AsyncClient, url: str, name: str | None) -> str:
    """Return the model to ask: the named one, or the only one.

    Raises:
        VerifyError: The server does not answer, or does not have it.
    """
    try:
        answer = await client.get(f"{url}/v1/models")
        answer.raise_for_status()
        known = [str(model["id"]) for model in answer.json()["data"]]
    except httpx.HTTPStatusError as error:
        raise VerifyError(f"{url}/v1/models: {_why(error.response)}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise VerifyError(f"{url}: {str(error) or type(error).__name__}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise VerifyError(f"{url}/v1/models is not OpenAI's; is this the right address?") from error
    if name is None and len(known) == 1:
        return known[0]
    if name is None:
        raise VerifyError(f"{url} serves {', '.join(known) or 'nothing'}; choose with --model")
    if name not in known:
        raise VerifyError(f"{url} does not serve {name}; it serves {', '.join(known) or 'nothing'}")
    return name


async def find_sides(client: httpx.AsyncClient, url: str, plain: str | None) -> tuple[Side, Side]:
    """Return the two ways to ask: without drafts, and with them.

    Args:
        client: Asks whether there is a specgate.
        url: Of the server that drafts.
        plain: Of a server of the same model that does not; None: `url` is a specgate.

    Raises:
        VerifyError: Drafts cannot be turned off.
    """
    if plain is not None:
        return Side("without drafts", plain), Side("with drafts", url)
    try:
        found = (await client.get(f"{url}/speculation")).raise_for_status().json()
        is_ours = "workers" in found
    except (httpx.HTTPError, ValueError, TypeError):
        is_ours = False
    if not is_ours:
        raise VerifyError(
            f"{url} is no specgate, where a request can turn drafts off; start the same model "
            "without speculation, and name that server with --plain-url"
        )
    return (
        Side("without drafts", url, {"speculation": {"mode": "off"}}, is_ours=True),
        Side("with drafts", url, {"speculation": {"mode": "auto"}}, is_ours=True),
    )


async def ask(client: httpx.AsyncClient, side: Side, model: str, prompt: Prompt) -> Asked:
    """Ask for one answer.

    Raises:
        VerifyError: The server cannot be reached, the model is gone, or an answer is not OpenAI's.
    """
    body = {
        "max_tokens": _MOST_TOKENS,
        **prompt.body,
        "model": model,
        "temperature": 0.0,
        "logprobs": True,
        "top_logprobs": _ALTERNATIVES,
        **side.members,
    }
    if side.is_ours:
        body["cache_salt"] = secrets.token_hex(8)  # neither finds the other's prompt in the cache
    if prompt.is_streamed:
        body["stream_options"] = {"include_usage": True}
    began = time.perf_counter()
    try:
        answer = await client.post(f"{side.url}/v1/chat/completions", json=body)
    except httpx.HTTPError as error:
        raise VerifyError(f"{side.url}: {str(error) or type(error).__name__}") from error
    seconds = time.perf_counter() - began
    if answer.status_code in (401, 403, 404) or answer.is_server_error:
        raise VerifyError(f"{side.url}: {_why(answer)}")
    if not answer.is_success:
        return Asked(refusal=_why(answer))
    try:
        return read_answer(read_parts(answer.text, is_streamed=prompt.is_streamed), seconds)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise VerifyError(f"{side.url}: an answer is not OpenAI's: {error!r}") from error


def read_parts(text: str, *, is_streamed: bool) -> list[dict[str, Any]]:
    """Read the body of an answer: its chunks, or the whole as the only one.

    Raises:
        ValueError: It is no JSON.
    """
    return list(_events(text)) if is_streamed else [json.loads(text)]


def read_answer(parts: Iterable[Mapping[str, Any]], seconds: float) -> Asked:
    """Put an answer together from its chunks, or from the whole.

    Raises:
        ValueError, KeyError, TypeError, IndexError: It is not OpenAI's.
    """
    tokens: list[Token] = []
    message: dict[str, Any] = {}
    reason, usage = None, 0
    for part in parts:
        if "error" in part:
            raise ValueError(part["error"])
        usage = (part.get("usage") or {}).get("completion_tokens", usage)
        for choice in part["choices"][:1]:
            _add(message, choice["delta"] if "delta" in choice else choice["message"])
            reason = choice.get("finish_reason") or reason
            tokens += map(_token, (choice.get("logprobs") or {}).get("content") or ())
    return Asked(tuple(tokens), _plain(message), reason, usage, seconds)


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):
        data = line.strip().removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            yield json.loads(data)


def _add(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a message, or a piece of one: texts grow, tool calls grow by their index."""
    for name, value in delta.items():
        if name == "tool_calls":
            calls = message.setdefault("tool_calls", [])
            for at, call in enumerate(value or ()):
                index = call.get("index", at)
                while len(calls) <= index:
                    calls.append({})
                for part, said in (call.get("function") or {}).items():
                    calls[index][part] = calls[index].get(part, "") + (said or "")
        elif isinstance(value, str) and name != "role":
            message[name] = message.get(name, "") + value


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if value}


def _token(found: Mapping[str, Any]) -> Token:
    alternatives = {_text(one): float(one["logprob"]) for one in found.get("top_logprobs") or ()}
    return Token(_text(found), float(found["logprob"]), alternatives)


def _text(found: Mapping[str, Any]) -> bytes:
    """Return a token's bytes. Two tokens may share the text of an incomplete character."""
    raw = found.get("bytes")
    return bytes(raw) if raw is not None else str(found["token"]).encode()


def _why(answer: httpx.Response) -> str:
    try:
        error = answer.json()["error"]
        return str(error["message"] if isinstance(error, dict) else error)[:_EXCERPT]
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"
