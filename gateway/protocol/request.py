"""A caller's request: the few fields that the gateway reads, and the body that it forwards.

Every other field is forwarded byte for byte. A caller's own `vllm_xargs.specgate_*` are replaced,
and its `cache_salt` is hashed with its tenant: both decide whose cache a request can reach.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast, get_args

from gateway.errors import InvalidRequestError
from gateway.protocol.endpoints import Endpoint
from gateway.protocol.json_object import EMPTY_OBJECT, JsonObject, parse_object
from gateway.protocol.prediction import read_prediction
from gateway.types import PacingMode

T = TypeVar("T")
SpeculationMode = Literal["auto", "off", "suffix", "head"]

_PREFIX = "specgate_"
_MAX_DRAFT_TOKENS = 256
"""No worker verifies more in a step."""
_CHARACTERS_PER_TOKEN = 4
"""For the estimate at admission; corrected when the worker has counted."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """The caller's `speculation: {...}`."""

    mode: SpeculationMode = "auto"
    max_draft_tokens: int | None = None

    @property
    def is_off(self) -> bool:
        """Whether drafting is disabled."""
        return self.mode == "off" or self.max_draft_tokens == 0


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """A parsed request; `body` keeps the original text.

    Attributes:
        choices: Number of completions: `n` for each prompt.
        prediction: Text that the caller expects back; empty if there is none or drafting is off.
        prediction_characters: Length of the `prediction` member in the body, used or not.
        pacing: Pacing mode that the caller asked for, if any.
        predicted_tokens: `prediction` as token ids, once a worker has tokenized it.
    """

    endpoint: Endpoint
    body: JsonObject
    model: str | None
    stream: bool
    choices: int
    wants_usage: bool
    wants_continuous_usage: bool
    speculation: Speculation
    prediction: str
    prediction_characters: int
    pacing: PacingMode | None = None
    predicted_tokens: tuple[int, ...] = ()

    @property
    def estimated_tokens(self) -> int:
        """Estimate of prompt plus requested output, from the body's length; >= 1."""
        characters = self.body.end - self.body.start - self.prediction_characters
        prompt = characters // _CHARACTERS_PER_TOKEN
        limits = ("max_completion_tokens", "max_tokens", "max_output_tokens")
        asked = next((v for key in limits if isinstance(v := self.body.get(key), int)), 0)
        return max(1, prompt + max(0, asked) * self.choices)

    @property
    def counts_tokens_per_chunk(self) -> bool:
        """Whether the worker is asked to put the running token count into each chunk.

        Not with several choices: vLLM counts each of them separately.
        """
        return self.stream and self.endpoint.streams_usage_chunk and self.choices == 1


def read_request(
    endpoint: Endpoint, data: bytes, *, pacing_header: str | None = None
) -> InferenceRequest:
    """Parse a body and validate the fields that the gateway acts on; the worker validates the rest.

    Args:
        endpoint: The endpoint that received it.
        data: The body.
        pacing_header: The value of `X-Pacing`; `pacing` in the body overrides it.

    Raises:
        InvalidRequestError: The body is invalid; `param` names the field if there is one.
    """
    body = parse_object(data)
    for name in endpoint.required:
        if body.get(name) is None:
            raise InvalidRequestError(f"Missing required field '{name}'.", param=name)
    options = _typed(body, "stream_options", dict) or {}
    _typed(body, "vllm_xargs", dict)
    _typed(body, "cache_salt", str)
    choices = _typed(body, "n", int)
    speculation = _speculation(body)
    member = body.member("prediction") if endpoint.takes_prediction else None
    prediction = "" if member is None else read_prediction(member.value)
    header = _pacing(pacing_header, param="X-Pacing")
    in_body = _pacing(body.get("pacing"), param="pacing")
    return InferenceRequest(
        endpoint=endpoint,
        body=body,
        model=_typed(body, "model", str),
        stream=bool(_typed(body, "stream", bool)),
        choices=(1 if choices is None else choices) * _prompts(body.get("prompt")),
        wants_usage=bool(options.get("include_usage")),
        # vLLM ignores the second without the first.
        wants_continuous_usage=bool(
            options.get("include_usage") and options.get("continuous_usage_stats")
        ),
        speculation=speculation,
        prediction="" if speculation.is_off else prediction,
        prediction_characters=0 if member is None else member.end - member.start,
        pacing=in_body or header,
    )


def forwarded_body(request: InferenceRequest, *, tenant: str) -> bytes:
    """The body for the worker: the caller's bytes with our fields spliced in.

    Args:
        request: As `read_request` returned it.
        tenant: The caller's tenant; the worker only sees a digest of it.
    """
    body, endpoint = request.body, request.endpoint
    changes: dict[str, str | None] = {}
    for ours in ("speculation", "pacing"):
        if body.member(ours) is not None:
            changes[ours] = None
    if request.prediction_characters:
        changes["prediction"] = None
    if endpoint.takes_xargs:
        changes["vllm_xargs"] = _xargs(request, tenant)
    if endpoint.takes_salt:
        changes["cache_salt"] = json.dumps(tenant_digest(tenant, body.get("cache_salt") or ""))
    if request.stream and endpoint.streams_usage_chunk:
        changes["stream_options"] = _stream_options(request)
    if not changes:
        return body.text.encode()
    return (body.text[: body.start] + body.edited(changes) + body.text[body.end :]).encode()


def tenant_digest(tenant: str, salt: str = "") -> str:
    """An opaque name for a tenant, the same on every gateway; 32 hexadecimal digits.

    `salt` is the caller's own `cache_salt`. It can divide a tenant's cache, but it never gives
    access to another tenant's.
    """
    return hashlib.sha256(json.dumps(["specgate", tenant, salt]).encode()).hexdigest()[:32]


def _xargs(request: InferenceRequest, tenant: str) -> str:
    ours: dict[str, str | None] = {
        f"{_PREFIX}mode": json.dumps(request.speculation.mode),
        f"{_PREFIX}tenant": json.dumps(tenant_digest(tenant)),
    }
    if request.speculation.max_draft_tokens is not None:
        ours[f"{_PREFIX}max_draft_tokens"] = json.dumps(request.speculation.max_draft_tokens)
    if request.predicted_tokens:
        ours[f"{_PREFIX}prediction"] = json.dumps(request.predicted_tokens, separators=(",", ":"))
    theirs = request.body.inner("vllm_xargs") or EMPTY_OBJECT
    forged = {m.key: None for m in theirs.members if m.key.startswith(_PREFIX)}
    return theirs.edited({**forged, **ours})


def _stream_options(request: InferenceRequest) -> str:
    wanted: dict[str, str | None] = {"include_usage": "true"}
    if request.counts_tokens_per_chunk:
        wanted["continuous_usage_stats"] = "true"
    elif not request.wants_continuous_usage:
        wanted["continuous_usage_stats"] = None
    return (request.body.inner("stream_options") or EMPTY_OBJECT).edited(wanted)


def _typed(body: JsonObject, name: str, kind: type[T]) -> T | None:
    value: Any = body.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidRequestError(f"'{name}' must be {_KIND_NAMES[kind]}.", param=name)
    return value


_KIND_NAMES: dict[type, str] = {
    dict: "an object",
    str: "a string",
    int: "an integer",
    bool: "a boolean",
}


def _prompts(prompt: object) -> int:
    """The number of prompts: a list of strings, or of lists of token ids, holds several.

    Source: OpenAI API reference, "Create completion", field `prompt`.
    """
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
        return len(prompt)
    return 1


def _speculation(body: JsonObject) -> Speculation:
    fields = _typed(body, "speculation", dict)
    if fields is None:
        return Speculation()
    for name in fields:
        if name not in ("mode", "max_draft_tokens"):
            raise InvalidRequestError(
                f"'speculation' has no field '{name}'.", param=f"speculation.{name}"
            )
    mode = fields.get("mode", "auto")
    if mode not in get_args(SpeculationMode):
        names = ", ".join(get_args(SpeculationMode))
        raise InvalidRequestError(
            f"'speculation.mode' must be one of {names}.", param="speculation.mode"
        )
    most = fields.get("max_draft_tokens")
    if most is not None and not (type(most) is int and 0 <= most <= _MAX_DRAFT_TOKENS):
        raise InvalidRequestError(
            f"'speculation.max_draft_tokens' must be an integer from 0 to {_MAX_DRAFT_TOKENS}.",
            param="speculation.max_draft_tokens",
        )
    return Speculation(mode=mode, max_draft_tokens=most)


def _pacing(value: object, *, param: str) -> PacingMode | None:
    if value is None or value in get_args(PacingMode):
        return cast(PacingMode | None, value)
    names = ", ".join(get_args(PacingMode))
    raise InvalidRequestError(f"'{param}' must be one of {names}.", param=param)
