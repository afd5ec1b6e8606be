"""The errors a vLLM worker answers with, worded and shaped as it does.

Source: answers of vLLM 0.32; its shapes differ by endpoint and from OpenAI's, which is exactly
what a gateway has to cope with.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

NOT_FOUND: Mapping[str, object] = {"detail": "Not Found"}
METHOD_NOT_ALLOWED: Mapping[str, object] = {"detail": "Method Not Allowed"}
_MESSAGES_PATH = "/v1/messages"
_TYPE_BY_STATUS = {404: "NotFoundError", 500: "InternalServerError", 503: "ServiceUnavailableError"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer: its status and its body."""

    status: int
    body: Mapping[str, object]


def scripted(path: str, status: int, body: Mapping[str, object] | None) -> Refusal:
    """The error a script asks for; worded like vLLM's when the script does not word it."""
    if body is not None:
        return Refusal(status, body)
    kind = _TYPE_BY_STATUS.get(status, "BadRequestError")
    return _refusal(path, HTTPStatus(status).phrase, kind=kind, status=status)


def invalid_body(reason: str) -> Refusal:
    """The body is no JSON object."""
    message = f"1 validation error:\n  {{'type': 'json_invalid', 'msg': {reason!r}}}"
    return _openai_refusal(message, kind="Bad Request", param="body", status=400)


def invalid_script(reason: str) -> Refusal:
    """The script of the test is wrong; ours, vLLM knows no such thing."""
    return _openai_refusal(reason, kind="FakeScriptError", param="fake", status=400)


def check_request(
    path: str, payload: Mapping[str, Any], *, models: list[str], max_model_len: int
) -> Refusal | None:
    """What vLLM would refuse in this request, or None."""
    needed = {"/v1/completions": "prompt", "/v1/responses": "input", "/v1/embeddings": "input"}
    field = needed.get(path, "messages")
    if field not in payload:
        message = f"1 validation error:\n  {{'type': 'missing', 'loc': 'body.{field}'}}"
        return _openai_refusal(message, kind="Bad Request", param=f"body.{field}", status=400)
    model = payload.get("model", models[0])
    if model not in models:
        message = f"The model `{model}` does not exist. Valid aliases: {', '.join(models)}."
        return _refusal(path, message, kind="NotFoundError", param="model", status=404)
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        asked = payload.get(name)
        if isinstance(asked, int) and asked > max_model_len:
            message = (
                f"{name}={asked} cannot be greater than max_model_len={max_model_len}. Please "
                f"request fewer output tokens. (parameter={name}, value={asked})"
            )
            return _refusal(path, message, kind="BadRequestError", param=name, status=400)
    return None


def _refusal(
    path: str, message: str, *, kind: str, status: int, param: str | None = None
) -> Refusal:
    if path == _MESSAGES_PATH:
        return Refusal(status, {"type": "error", "error": {"type": kind, "message": message}})
    return _openai_refusal(message, kind=kind, param=param, status=status)


def _openai_refusal(message: str, *, kind: str, param: str | None, status: int) -> Refusal:
    error = {"message": message, "type": kind, "param": param, "code": status}
    return Refusal(status, {"error": error})
