"""One answer: asked of a worker, kept as JSON, and made ready for `gateway.verify.compare`.

The reference is asked with log-probabilities, which tell near-ties. Answers with drafts are asked
without: steps that need them are verified by vLLM and not by us, and hardly any client wants them.
Both are asked for their token ids, which are what is compared.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx

from bench.engine.counts import Counts
from bench.rounds import Json
from gateway.verify import Asked, Prompt, Token, read_answer, read_parts

ALTERNATIVES = 20
"""Log-probabilities for each token of the reference; vLLM's most."""

_REFERENCE = {
    "logprobs": True,
    "top_logprobs": ALTERNATIVES,
    "return_tokens_as_token_ids": True,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        ids: Its tokens.
        likeliest: Of the reference: for each token the log-probabilities of the likeliest and its
            own, by id.
        message: What a client gets.
        finish_reason: Why it ended.
        prompt_tokens, cached_tokens: Of the prompt, and how many of these were in the cache.
        drafted, accepted: Draft tokens.
        refusal: Why there is no answer; the other attributes are then empty.
    """

    ids: tuple[int, ...] = ()
    likeliest: tuple[Mapping[str, float], ...] = ()
    message: Mapping[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    refusal: str | None = None

    @classmethod
    def read(cls, text: str, *, is_streamed: bool) -> "Answer":
        """Read the body of a successful response.

        Raises:
            ValueError, KeyError, TypeError: It is not what was asked for.
        """
        parts = read_parts(text, is_streamed=is_streamed)
        asked = read_answer(parts, 0.0)
        usage = _last(parts, "usage")
        counts = Counts()
        counts.take({"usage": usage, "metrics": _last(parts, "metrics")})
        # Behind a stop string vLLM reports no drafts; the trace has those that were accepted.
        traced = sum(source != "target" for part in parts for source, _ in _trace(part))
        ids = [
            token
            for part in parts
            for choice in part["choices"]
            for token in choice.get("token_ids") or ()
        ]
        if asked.tokens and len(asked.tokens) != len(ids):
            raise ValueError(f"{len(asked.tokens)} log-probabilities for {len(ids)} tokens")
        return cls(
            ids=tuple(ids),
            likeliest=tuple(_likeliest(token) for token in asked.tokens),
            message=asked.message,
            finish_reason=asked.finish_reason,
            prompt_tokens=usage["prompt_tokens"],
            cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
            drafted=counts.drafted.total() or traced,
            accepted=counts.accepted.total() or traced,
        )

    @classmethod
    def from_json(cls, found: Json) -> "Answer":
        """Return what `as_json` was called on."""
        return cls(**{**found, "ids": tuple(found["ids"]), "likeliest": tuple(found["likeliest"])})

    def as_json(self) -> Json:
        """The answer as a JSON object."""
        return asdict(self)

    def asked(self) -> Asked:
        """The answer as `compare` takes it: a token's text is its id."""
        likeliest = self.likeliest or ({},) * len(self.ids)
        tokens = (
            Token(name.encode(), known.get(name, 0.0), {k.encode(): v for k, v in known.items()})
            for name, known in zip(map(str, self.ids), likeliest, strict=True)
        )
        return Asked(tuple(tokens), self.message, self.finish_reason, refusal=self.refusal)


def body_of(prompt: Prompt, model: str, *, salt: str, is_reference: bool) -> Json:
    """Return the body of a request.

    Args:
        prompt: What is asked.
        model: Its name.
        salt: Requests with another one share no cached prefix.
        is_reference: Whether to ask for log-probabilities.
    """
    streamed = {"stream_options": {"include_usage": True}} if prompt.is_streamed else {}
    return {
        **prompt.body,
        "model": model,
        "temperature": 0.0,
        "cache_salt": salt,
        "return_token_ids": True,
        **streamed,
        **(_REFERENCE if is_reference else {}),
    }


def answer_of(response: httpx.Response, *, is_streamed: bool) -> Answer:
    """Read a response, a refusal (4xx) included.

    Raises:
        ValueError, KeyError, TypeError: It is not what was asked for.
    """
    if response.is_client_error:
        return Answer(refusal=response.text[:200])
    if not response.is_success:
        raise ValueError(f"status {response.status_code}: {response.text[:200]}")
    return Answer.read(response.text, is_streamed=is_streamed)


def _trace(part: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
    return (part.get("speculation") or {}).get("trace") or ()


def _last(parts: Iterable[Mapping[str, Any]], name: str) -> Any:
    return next((part[name] for part in reversed(list(parts)) if part.get(name)), None)


def _likeliest(token: Token) -> Mapping[str, float]:
    found = {**token.alternatives, token.text: token.logprob}
    return {name.decode().removeprefix("token_id:"): value for name, value in found.items()}
