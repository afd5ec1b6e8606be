"""The worker's endpoints, and what the gateway may read or add on each."""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial


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
        added_limit: The field for our own limit, where the worker's is the model's length.
        implied_limit: Output tokens if the body has none of `limits`; None: up to the model's
            length.
    """

    path: str
    dialect: Dialect
    takes_xargs: bool = False
    takes_salt: bool = False
    required: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    added_limit: str | None = None
    implied_limit: int | None = None

    @property
    def streams_usage_chunk(self) -> bool:
        """Whether it accepts `stream_options` and sends usage in a separate chunk."""
        return self.dialect in (Dialect.CHAT, Dialect.COMPLETIONS)

    @property
    def takes_prediction(self) -> bool:
        """Whether the gateway acts on `prediction`; elsewhere the field is passed through."""
        return self.dialect in (Dialect.CHAT, Dialect.COMPLETIONS)

    @property
    def sends_trace(self) -> bool:
        """Whether our worker can put the origin of each token into the answer."""
        return self.dialect in (Dialect.CHAT, Dialect.COMPLETIONS)


_generating = partial(Endpoint, takes_xargs=True, takes_salt=True)

ENDPOINTS: tuple[Endpoint, ...] = (
    _generating(
        "/v1/chat/completions",
        Dialect.CHAT,
        required=("messages",),
        limits=("max_completion_tokens", "max_tokens"),
        added_limit="max_tokens",
    ),
    _generating(
        "/v1/completions",
        Dialect.COMPLETIONS,
        limits=("max_tokens",),
        added_limit="max_tokens",
        implied_limit=16,
    ),
    _generating(
        "/v1/responses",
        Dialect.RESPONSES,
        limits=("max_output_tokens",),
        added_limit="max_output_tokens",
    ),
    _generating(
        "/v1/messages",
        Dialect.MESSAGES,
        required=("messages",),
        limits=("max_tokens",),  # itself required, so we add none
    ),
    Endpoint("/v1/embeddings", Dialect.PLAIN, takes_salt=True),
    Endpoint("/tokenize", Dialect.PLAIN),
    Endpoint("/detokenize", Dialect.PLAIN),
)
"""Source: the routers of vLLM 0.32 under `vllm/entrypoints`."""


def forwarded_endpoint(path: str) -> Endpoint:
    """An endpoint from `gateway.forward_paths`; nothing is added to its bodies."""
    return Endpoint(path, Dialect.MESSAGES if path.startswith("/v1/messages/") else Dialect.PLAIN)
