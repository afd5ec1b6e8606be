"""A caller's request: the few fields that the gateway reads, and the body that it forwards.

Every other field is forwarded byte for byte. A caller's own `vllm_xargs.specgate_*` are replaced,
and its `cache_salt` is hashed with its tenant: both decide whose cache a request can reach.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, Raw

from gateway.errors import InvalidRequestError
from gateway.protocol.endpoints import Dialect, Endpoint
from gateway.protocol.json_object import (
    MAX_MEMBERS,
    Members,
    is_null,
    json_text,
    read_body,
    read_members,
    write_members,
)
from gateway.protocol.prediction import read_prediction
from gateway.protocol.seen_tokens import Watch
from gateway.protocol.tenant import TenantDigests
from gateway.protocol.turn import Turn
from gateway.types import PacingMode

T = TypeVar("T")
SpeculationMode = Literal["auto", "off", "suffix", "head"]

_PREFIX = "specgate_"
_MAX_DRAFT_TOKENS = 256
"""No worker verifies more in a step."""
_BYTES_PER_TOKEN = 4
"""For the estimate at admission; corrected when the worker has counted."""
_MAX_VALUE_BYTES = 2**16
"""Longest value that is decoded: a string may take four times its length in memory."""
_MAX_NUMBER_BYTES = 32
_MAX_XARGS = 10_000
_MAX_PROMPTS = 1_000
"""Counting takes time, so a longer list counts as this many."""
_PROMPT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|\[[^][]*+\]')
"""One of several prompts: a string, or a list of token ids."""
_PLACE = re.compile(r" - at `\$(.*)`$")
"""The place in a value, at the end of `msgspec`'s errors."""


class Speculation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The caller's `speculation: {...}`."""

    mode: SpeculationMode = "auto"
    max_draft_tokens: Annotated[int, Meta(ge=0, le=_MAX_DRAFT_TOKENS)] | None = None
    trace: bool = False
    """Whether the answer is to name the origin of each token."""
    canary: bool = True
    """Whether the gateway may ask again without drafts, to compare (ADR 45)."""

    @property
    def is_off(self) -> bool:
        """Whether drafting is disabled."""
        return self.mode == "off" or self.max_draft_tokens == 0


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """A parsed request.

    Attributes:
        body: The original body.
        members: Its members; their values are views of `body`.
        choices: Number of completions: `n` for each prompt.
        asked_tokens: Longest output of a completion: the caller's limit, or else the default.
        adds_limit: Whether `asked_tokens` is our default, which the worker has to be told.
        prediction: Text that the caller expects back; empty if there is none or drafting is off.
        prediction_bytes: Length of the `prediction` in the body, used or not.
        pacing: Pacing mode that the caller asked for, if any.
        predicted_tokens: `prediction` as token ids, once a worker has tokenized it.
        turn: Its part in a stored conversation; None: it is forwarded as it is.
        watch: What the canary reads of the answer; None: nothing.
        resumable: Whether another worker can go on with the answer if its worker is lost.
        resumed: Ids of the tokens that the answer begins with, which the client has.
    """

    endpoint: Endpoint
    body: bytes
    members: Members
    model: str | None
    stream: bool
    choices: int
    asked_tokens: int | None
    adds_limit: bool
    wants_usage: bool
    wants_continuous_usage: bool
    speculation: Speculation
    prediction: str
    prediction_bytes: int
    pacing: PacingMode | None = None
    predicted_tokens: tuple[int, ...] = ()
    turn: Turn | None = None
    watch: Watch | None = None
    resumable: bool = False
    resumed: tuple[int, ...] = ()

    def within(self, model_limit: int | None) -> "InferenceRequest":
        """The request with our default cut to the model's length: vLLM refuses a larger limit."""
        if model_limit is None or self.asked_tokens is None or not self.adds_limit:
            return self
        return replace(self, asked_tokens=min(self.asked_tokens, model_limit))

    @property
    def estimated_prompt_tokens(self) -> int:
        """Estimate of the prompt, from the body's length."""
        history_bytes = 0 if self.turn is None else self.turn.history_bytes
        return (len(self.body) - self.prediction_bytes + history_bytes) // _BYTES_PER_TOKEN

    def estimated_tokens(self, model_limit: int | None) -> int:
        """Estimate of prompt plus output, from the body's length and limits; >= 1.

        Args:
            model_limit: Most tokens of prompt and output that the model takes, if known. A
                completion without a limit is taken to use all of them.
        """
        prompt = self.estimated_prompt_tokens
        choices = max(1, self.choices)
        output = self.asked_tokens
        if self.endpoint.limits and model_limit is not None:
            room = max(0, model_limit - prompt // choices)
            output = room if output is None else min(output, room)
        return max(1, prompt + max(0, output or 0) * choices)

    @property
    def counts_tokens_per_chunk(self) -> bool:
        """Whether the worker is asked to put the running token count into each chunk.

        Not with several choices: vLLM counts each of them separately.
        """
        return self.stream and self.endpoint.streams_usage_chunk and self.choices == 1

    def with_mode(self, mode: SpeculationMode) -> "InferenceRequest":
        """The request with another mode of speculation."""
        speculation = msgspec.structs.replace(self.speculation, mode=mode)
        prediction = "" if speculation.is_off else self.prediction
        return replace(self, speculation=speculation, prediction=prediction)

    def watched(self, most_tokens: int) -> "InferenceRequest":
        """The request with the wish to read its tokens; itself if it cannot be compared.

        Comparable is a greedy completion with one choice that may be drafted. A `temperature` that
        is not given may be another one at the worker. vLLM changes an `echo` where token ids are
        asked for.
        """
        members, speculation = self.members, self.speculation
        if (
            not self.endpoint.sends_trace
            or self.choices != 1
            or speculation.is_off
            or not speculation.canary
            or not _is_zero(members.get("temperature"))
            or _is_set(members.get("echo"))
            or _is_set(members.get("use_beam_search"))
        ):
            return self
        wants_ids = _is_set(members.get("return_token_ids"))
        return replace(self, watch=Watch(most_tokens, wants_ids, speculation.trace))

    def resuming(self, tokens: Sequence[int]) -> "InferenceRequest":
        """The request for a worker that goes on behind these tokens; the canary lets it go."""
        return replace(self, resumed=tuple(tokens), watch=None)


def read_request(
    endpoint: Endpoint,
    data: bytes,
    *,
    pacing_header: str | None = None,
    default_max_tokens: int | None = None,
    may_resume: bool = False,
) -> InferenceRequest:
    """Parse a body and validate the fields that the gateway acts on; the worker validates the rest.

    Args:
        endpoint: The endpoint that received it.
        data: The body.
        pacing_header: The value of `X-Pacing`; `pacing` in the body overrides it.
        default_max_tokens: Longest output of a completion if the body sets no limit.
        may_resume: Whether a stream may go on behind a lost worker's.

    Raises:
        InvalidRequestError: The body is invalid; `param` names the field if there is one.
    """
    members = read_body(data)
    for name in endpoint.required:
        if is_null(members.get(name)):
            raise InvalidRequestError(f"Missing required field '{name}'.", param=name)
    _XARGS.read(members)
    _CACHE_SALT.read(members)
    options = _STREAM_OPTIONS.read(members) or _StreamOptions()
    asked_choices = _CHOICES.read(members)
    choices = (1 if asked_choices is None else asked_choices) * _prompts(members.get("prompt"))
    speculation = _SPECULATION.read(members) or Speculation()
    if speculation.trace and endpoint.takes_xargs:
        _check_trace(endpoint, choices)
    prediction = members.get("prediction") if endpoint.takes_prediction else None
    asked_tokens = _asked_tokens(endpoint, members)
    adds_limit = asked_tokens is None and endpoint.added_limit is not None
    stream = bool(_STREAM.read(members))
    resumable = stream and choices == 1 and not speculation.trace and _is_plain(endpoint, members)
    expected, header = read_prediction(prediction), _pacing_of(pacing_header)
    return InferenceRequest(
        endpoint=endpoint,
        body=data,
        members=members,
        model=_MODEL.read(members),
        stream=stream,
        choices=choices,
        asked_tokens=default_max_tokens if adds_limit else asked_tokens,
        adds_limit=adds_limit and default_max_tokens is not None,
        wants_usage=bool(options.include_usage),
        # vLLM ignores the second without the first.
        wants_continuous_usage=bool(options.include_usage and options.continuous_usage_stats),
        speculation=speculation,
        prediction="" if speculation.is_off else expected,
        prediction_bytes=0 if prediction is None else len(memoryview(prediction)),
        pacing=_PACING.read(members) or header,
        turn=_turn(members) if endpoint.dialect is Dialect.RESPONSES else None,
        resumable=resumable and may_resume,
    )


def forwarded_body(request: InferenceRequest, *, tenant: str, digests: TenantDigests) -> bytes:
    """The body for the worker: the caller's values byte for byte, and our fields.

    Args:
        request: As `read_request` returned it.
        tenant: The caller's tenant.
        digests: Makes the names under which the worker knows tenants.

    Raises:
        InvalidRequestError: An object to which we add has too many members.
    """
    endpoint, theirs = request.endpoint, request.members
    name = digests.of(tenant)
    members = dict(theirs)
    members.pop("speculation", None)
    members.pop("pacing", None)
    if endpoint.takes_prediction:
        members.pop("prediction", None)
    # On other endpoints nothing is added, but a caller's own must not pass there either.
    if endpoint.takes_xargs or not is_null(theirs.get("vllm_xargs")):
        members["vllm_xargs"] = _xargs(request, name, adapt=tenant in digests.learnt_from)
    salt = _CACHE_SALT.read(theirs)
    if endpoint.takes_salt or salt is not None:
        members["cache_salt"] = json_text(digests.of(tenant, salt) if salt else name)
    if request.adds_limit and endpoint.added_limit is not None:
        members[endpoint.added_limit] = json_text(request.asked_tokens)
    if request.stream and endpoint.streams_usage_chunk:
        members["stream_options"] = _stream_options(request)
    if request.watch is not None:
        members["return_token_ids"] = _TRUE
    if (turn := request.turn) is not None:
        members.pop("previous_response_id", None)
        members["store"] = _FALSE  # a worker with a store of its own would keep it forever
        if turn.history:
            members["input"] = turn.whole_input(theirs.get("input"))
    return write_members(members)


def _check_trace(endpoint: Endpoint, choices: int) -> None:
    """Refuse a trace that the answer has no place for."""
    if not endpoint.sends_trace:
        raise InvalidRequestError(
            "'speculation.trace' works on chat and text completions only.",
            param="speculation.trace",
        )
    if choices > 1:
        raise InvalidRequestError(
            "'speculation.trace' needs a single choice: one prompt, and 'n' 1.",
            param="speculation.trace",
        )


def _xargs(request: InferenceRequest, tenant_name: str, *, adapt: bool) -> Raw:
    members = _members_of(request.members.get("vllm_xargs"), most=_MAX_XARGS)
    members = {name: value for name, value in members.items() if not name.startswith(_PREFIX)}
    if not request.endpoint.takes_xargs:
        return Raw(write_members(members))
    ours: dict[str, object] = {"mode": request.speculation.mode, "tenant": tenant_name}
    if request.speculation.max_draft_tokens is not None:
        ours["max_draft_tokens"] = request.speculation.max_draft_tokens
    if request.predicted_tokens:
        ours["prediction"] = request.predicted_tokens
    if adapt:
        ours["adapt"] = 1
    if request.speculation.trace or request.watch is not None:
        ours["trace"] = 1
    if request.resumable:
        ours["ids"] = 1
    if request.resumed:
        ours["resume"] = request.resumed
    members.update((_PREFIX + name, json_text(value)) for name, value in ours.items())
    return Raw(write_members(members))


def _stream_options(request: InferenceRequest) -> Raw:
    members = _members_of(request.members.get("stream_options"))
    members["include_usage"] = _TRUE
    if request.counts_tokens_per_chunk:
        members["continuous_usage_stats"] = _TRUE
    elif not request.wants_continuous_usage:
        members.pop("continuous_usage_stats", None)
    return Raw(write_members(members))


def _members_of(value: Raw | None, *, most: int = MAX_MEMBERS) -> Members:
    return {} if value is None or is_null(value) else read_members(value, most=most)


def _asked_tokens(endpoint: Endpoint, members: Members) -> int | None:
    """The first limit that is not null, in vLLM's order, or else what vLLM implies."""
    for name in endpoint.limits:
        if (asked := _LIMITS[name].read(members)) is not None:
            return int(asked)
    named = any(name in members for name in endpoint.limits)
    return None if named else endpoint.implied_limit


def _turn(members: Members) -> Turn | None:
    """None for what is neither stored nor continued, and for the worker's own background mode."""
    previous_id, store = _PREVIOUS_ID.read(members), _STORE.read(members)
    if _BACKGROUND.read(members) or (store is False and previous_id is None):
        return None
    return Turn(previous_id, store)


def _is_plain(endpoint: Endpoint, members: Members) -> bool:
    """Whether the chunks tell all of the answer that another worker needs to go on with it."""
    return endpoint.sends_trace and not any(_is_set(members.get(name)) for name in _NOT_PLAIN)


def _is_zero(value: Raw | None) -> bool:
    if value is None or len(memoryview(value)) > _MAX_NUMBER_BYTES:
        return False
    number = msgspec.json.decode(value)
    return isinstance(number, int | float) and number == 0


def _is_set(value: Raw | None) -> bool:
    """Whether a flag is neither false nor null; the worker takes more than `true` for true."""
    return value is not None and memoryview(value)[0] not in b"fn"


def _prompts(prompt: Raw | None) -> int:
    """The number of prompts: a list of strings, or of lists of token ids, holds several.

    Source: OpenAI API reference, "Create completion", field `prompt`.
    """
    if prompt is None or memoryview(prompt)[0] != ord("["):
        return 1
    several = islice(_PROMPT.finditer(memoryview(prompt)[1:]), _MAX_PROMPTS)
    return max(1, sum(1 for _ in several))


def _pacing_of(header: str | None) -> PacingMode | None:
    return None if header is None else _PACING_HEADER.read({"X-Pacing": json_text(header)})


class _Field(Generic[T]):
    """A field that the gateway reads.

    Args:
        name: Its name.
        kind: Its type.
        expected: The type in words.
        most_bytes: Longest value.
    """

    def __init__(
        self, name: str, kind: Any, expected: str, *, most_bytes: int = _MAX_VALUE_BYTES
    ) -> None:
        self._name = name
        self._expected = expected
        self._most_bytes = most_bytes
        self._decoder: msgspec.json.Decoder[T | None] = msgspec.json.Decoder(kind | None)

    def read(self, members: Members) -> T | None:
        """The field's value; None if it is absent or null."""
        if (value := members.get(self._name)) is None:
            return None
        if len(memoryview(value)) > self._most_bytes:
            raise InvalidRequestError(f"'{self._name}' is too long.", param=self._name)
        try:
            return self._decoder.decode(value)
        except (msgspec.DecodeError, RecursionError) as error:
            place = _PLACE.search(str(error))
            raise InvalidRequestError(
                f"'{self._name}' must be {self._expected}.",
                param=self._name + (place.group(1) if place else ""),
            ) from error


class _Object(msgspec.Struct):
    """Any object; nothing of it is kept."""


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


_MODES = ", ".join(get_args(PacingMode))
_MODEL: _Field[str] = _Field("model", str, "a string")
_STREAM: _Field[bool] = _Field("stream", bool, "a boolean")
_STREAM_OPTIONS: _Field[_StreamOptions] = _Field(
    "stream_options", _StreamOptions, "an object of booleans"
)
_CHOICES: _Field[int] = _Field("n", int, "an integer")
_XARGS: _Field[_Object] = _Field("vllm_xargs", _Object, "an object", most_bytes=sys.maxsize)
_CACHE_SALT: _Field[str] = _Field("cache_salt", str, "a string")
_SPECULATION: _Field[Speculation] = _Field(
    "speculation",
    Speculation,
    f"an object with 'mode' ({', '.join(get_args(SpeculationMode))}), 'max_draft_tokens' "
    f"(an integer from 0 to {_MAX_DRAFT_TOKENS}), 'trace' and 'canary' (booleans)",
)
_PREVIOUS_ID: _Field[str] = _Field("previous_response_id", str, "a string")
_STORE: _Field[bool] = _Field("store", bool, "a boolean")
_BACKGROUND: _Field[bool] = _Field("background", bool, "a boolean")
_PACING: _Field[PacingMode] = _Field("pacing", PacingMode, f"one of {_MODES}")
_PACING_HEADER: _Field[PacingMode] = _Field("X-Pacing", PacingMode, f"one of {_MODES}")
_LIMITS: dict[str, _Field[int | float]] = {
    name: _Field(name, int | float, "an integer")
    for name in ("max_completion_tokens", "max_tokens", "max_output_tokens")
}
_NOT_PLAIN = (
    "functions",
    "echo",
    "use_beam_search",
    "return_token_ids",
    "prompt_logprobs",
    "kv_transfer_params",
)
"""Fields with which an answer is not resumed."""
_TRUE = json_text(True)
_FALSE = json_text(False)
