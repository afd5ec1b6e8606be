"""The worker's endpoints, and what the gateway may read or add on each."""

from dataclasses import dataclass
from enum import StrEnum


class Dialect(StrEnum):
    """The wire format of an endpoint: its streams, its usage object and its errors."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    PLAIN = "plain"
    """JSON in, JSON out, no streaming: embeddings, tokenize, and forwarded paths."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One POST path of the worker.

    Attributes:
        path: The same on the gateway and on the worker.
        dialect: Wire format of the answers.
        takes_xargs: Whether vLLM reads `vllm_xargs` here.
        takes_salt: Whether vLLM reads `cache_salt` here.
        required: Fields without which the worker would answer 400.
        limits: Fields that limit the output; the first one that is set counts.
    """

    path: str
    dialect: Dialect
    takes_xargs: bool = False
    takes_salt: bool = False
    required: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    @property
    def streams_usage_chunk(self) -> bool:
        """Whether it accepts `stream_options` and sends usage in a separate chunk."""
        return self.dialect in (Dialect.CHAT, Dialect.COMPLETIONS)

    @property
    def takes_prediction(self) -> bool:
        """Whether the gateway acts on `prediction`; elsewhere the field is passed through."""
        return self.dialect in (Dialect.CHAT, Dialect.COMPLETIONS)


def _generating(
    path: str, dialect: Dialect, required: tuple[str, ...], limits: tuple[str, ...]
) -> Endpoint:
    return Endpoint(
        path, dialect, takes_xargs=True, takes_salt=True, required=required, limits=limits
    )


_CHAT_LIMITS = ("max_completion_tokens", "max_tokens")


ENDPOINTS: tuple[Endpoint, ...] = (
    _generating("/v1/chat/completions", Dialect.CHAT, ("messages",), _CHAT_LIMITS),
    _generating("/v1/completions", Dialect.COMPLETIONS, (), ("max_tokens",)),
    _generating("/v1/responses", Dialect.RESPONSES, (), ("max_output_tokens",)),
    _generating("/v1/messages", Dialect.MESSAGES, ("messages",), ("max_tokens",)),
    Endpoint("/v1/embeddings", Dialect.PLAIN, takes_salt=True),
    Endpoint("/tokenize", Dialect.PLAIN),
    Endpoint("/detokenize", Dialect.PLAIN),
)
"""Source: the routers of vLLM 0.32 under `vllm/entrypoints`."""


def forwarded_endpoint(path: str) -> Endpoint:
    """An endpoint from `gateway.forward_paths`; its bodies are not changed."""
    return Endpoint(path, Dialect.PLAIN)
