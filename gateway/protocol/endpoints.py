"""The worker endpoints that the gateway knows, and what it may read or add on each."""

from dataclasses import dataclass
from enum import StrEnum


class Dialect(StrEnum):
    """How an endpoint speaks: the shape of its streams, its usage and its errors."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    PLAIN = "plain"
    """JSON in, JSON out, no stream of its own: embeddings, tokenize, and what we only forward."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One POST path of the worker.

    Attributes:
        path: The same on the gateway and on the worker.
        dialect: Shape of what comes back.
        takes_xargs: vLLM reads `vllm_xargs` there.
        takes_salt: vLLM reads `cache_salt` there.
        required: Fields without which the worker can only answer 400.
    """

    path: str
    dialect: Dialect
    takes_xargs: bool = False
    takes_salt: bool = False
    required: tuple[str, ...] = ()

    @property
    def streams_usage_chunk(self) -> bool:
        """Whether `stream_options` exists there and usage comes as a chunk of its own."""
        return self.dialect in (Dialect.CHAT, Dialect.COMPLETIONS)

    @property
    def takes_prediction(self) -> bool:
        """Whether `prediction` is read there; elsewhere it is a field we do not know."""
        return self.dialect in (Dialect.CHAT, Dialect.COMPLETIONS)


def _generating(path: str, dialect: Dialect, *required: str) -> Endpoint:
    return Endpoint(path, dialect, takes_xargs=True, takes_salt=True, required=required)


ENDPOINTS: tuple[Endpoint, ...] = (
    _generating("/v1/chat/completions", Dialect.CHAT, "messages"),
    _generating("/v1/completions", Dialect.COMPLETIONS),
    _generating("/v1/responses", Dialect.RESPONSES),
    _generating("/v1/messages", Dialect.MESSAGES, "messages"),
    Endpoint("/v1/embeddings", Dialect.PLAIN, takes_salt=True),
    Endpoint("/tokenize", Dialect.PLAIN),
    Endpoint("/detokenize", Dialect.PLAIN),
)
"""Source: the routers of vLLM 0.32 under `vllm/entrypoints`."""


def forwarded_endpoint(path: str) -> Endpoint:
    """An endpoint of `gateway.forward_paths`: bodies stay as they are."""
    return Endpoint(path, Dialect.PLAIN)
