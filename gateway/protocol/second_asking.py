"""The canary's second asking: the same request without drafts, and its answer (ADR 45).

Tokens are compared by id. vLLM also names the tokens of log-probabilities by id, on request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.errors import UpstreamError
from gateway.protocol.endpoints import Dialect
from gateway.protocol.json_object import NOT_JSON, json_text, read_members, write_members

_ALTERNATIVES = 5
_DROPPED = ("stream", "stream_options", "max_completion_tokens", "prompt_logprobs")
_DROPPED_XARGS = ("trace", "ids", "prediction", "max_draft_tokens", "adapt")
_ID = "token_id:"


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """An answer without drafts.

    Attributes:
        ids: Its tokens.
        logprobs: For each token the log-probabilities of the likeliest and its own, by id.
        hit_stop: Whether a stop string or token of the request ended it.
    """

    ids: Sequence[int]
    logprobs: Sequence[Mapping[int, float]]
    hit_stop: bool


def second_body(body: bytes, dialect: Dialect, *, max_tokens: int, salt: str) -> bytes:
    """The body of the second asking.

    Args:
        body: As it was forwarded.
        dialect: Of its endpoint: chat or text completions.
        max_tokens: Length of the answer.
        salt: Its own, so that the worker's prefix cache does not know the prompt.
    """
    members = {name: value for name, value in read_members(body).items() if name not in _DROPPED}
    xargs = read_members(members["vllm_xargs"])
    for name in _DROPPED_XARGS:
        xargs.pop(f"specgate_{name}", None)
    xargs["specgate_mode"] = json_text("off")
    xargs["specgate_indexed"] = json_text(0)  # the suffix index has the text already
    members["vllm_xargs"] = msgspec.Raw(write_members(xargs))
    ours: dict[str, object] = {
        "max_tokens": max_tokens,
        "cache_salt": salt,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "logprobs": _ALTERNATIVES,
    }
    if dialect is Dialect.CHAT:
        ours |= {"logprobs": True, "top_logprobs": _ALTERNATIVES}
    members.update((name, json_text(value)) for name, value in ours.items())
    return write_members(members)


def read_second_answer(body: bytes) -> PlainAnswer:
    """Read the answer to the second asking.

    Raises:
        UpstreamError: It is not what was asked for.
    """
    try:
        choice = msgspec.json.decode(body)["choices"][0]
        ids = [int(token) for token in choice["token_ids"]]
        logprobs = list(_logprobs(choice["logprobs"]))
    except (*NOT_JSON, ValueError, KeyError, IndexError, TypeError) as error:
        raise UpstreamError("The engine's second answer has no token ids.") from error
    if len(logprobs) != len(ids):
        raise UpstreamError("The engine's second answer lacks log-probabilities.")
    return PlainAnswer(ids, logprobs, hit_stop=choice.get("stop_reason") is not None)


def _logprobs(found: Mapping[str, Any]) -> list[dict[int, float]]:
    """Those of chat, a list of objects, or those of text completions, parallel lists."""
    if "content" in found:
        return [
            {_id(one["token"]): one["logprob"] for one in (*token["top_logprobs"], token)}
            for token in found["content"]
        ]
    own = zip(found["tokens"], found["token_logprobs"], found["top_logprobs"], strict=True)
    return [
        {_id(name): value for name, value in {**likeliest, token: logprob}.items()}
        for token, logprob, likeliest in own
    ]


def _id(token: str) -> int:
    return int(token.removeprefix(_ID))
