"""What every dialect needs to word an answer: text, usage and vLLM's per-request metrics.

Source: answers of vLLM 0.32 started with `--enable-per-request-metrics` and
`--per-request-spec-decode-metrics detailed`.
"""

import json
import time
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from tests.fakes.coded_steps import plain_tokens
from tests.fakes.script import Script

JsonDict = dict[str, Any]
FINGERPRINT = "vllm-0.32.0-fake"
PROMPT_IDS = [1, 2, 3]
_FIRST_ID = 100
_SPEC_TOKENS_PER_STEP = 8
_DETAILS = ("per_step_accepted", "per_step_drafted")
_serials = count(1)


def next_serial() -> str:
    """Sixteen hex digits that no other reply of this process has."""
    return f"{next(_serials):016x}"


def compact(value: object) -> str:
    """JSON the way vLLM writes it: no blanks, text not escaped."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def event_frame(event: str, data: JsonDict) -> bytes:
    """A named server-sent event."""
    return f"event: {event}\ndata: {compact(data)}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer before it is worded.

    Attributes:
        serial: Sixteen hex digits, different for every reply of this process.
        texts: Text of each content chunk.
        include_usage: The request asked for a usage chunk at the end.
        continuous_usage: The request asked for usage in every chunk.
        traced: The gateway asked for the origin of each token.
        with_ids: Token ids were asked for.
        plain: Drafts were turned off.
        logprobs: Log-probabilities were asked for.
        sends_ids: The ids of an answer's tokens are sent as our worker does, so it can be resumed.
        resumed: Tokens that the answer begins with, since another worker has sent them.
    """

    model: str
    script: Script
    include_usage: bool = False
    continuous_usage: bool = False
    traced: bool = False
    with_ids: bool = False
    plain: bool = False
    logprobs: bool = False
    sends_ids: bool = False
    resumed: int = 0
    texts: list[str] = field(default_factory=list)
    serial: str = field(default_factory=next_serial)
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def completion_tokens(self) -> int:
        """Tokens of the whole answer."""
        return len(self.texts) * self.script.tokens_per_chunk

    @property
    def first(self) -> int:
        """Number of the first chunk, which has all the text before it, too."""
        return self.resumed // self.script.tokens_per_chunk

    def text(self, index: int) -> str:
        """Text of chunk number `index`."""
        return "".join(self.texts[: index + 1]) if index == self.first else self.texts[index]

    def sent_ids(self, index: int) -> list[int]:
        """The ids of the tokens of chunk number `index`, as our worker sends them."""
        per_chunk = self.script.tokens_per_chunk
        begin = 0 if index == self.first else index
        return [self._id(place) for place in range(begin * per_chunk, (index + 1) * per_chunk)]

    def usage_after(self, chunks: int) -> JsonDict:
        """Usage as chat and completions report it once `chunks` have gone out."""
        tokens = chunks * self.script.tokens_per_chunk
        prompt, cached = self.script.prompt_tokens, self.script.cached_tokens
        usage: JsonDict = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + tokens,
            "completion_tokens": tokens,
        }
        return usage | ({"prompt_tokens_details": {"cached_tokens": cached}} if cached else {})

    def trace(self, index: int) -> list[tuple[str, int]]:
        """The origin of each token of chunk number `index`, as our worker writes it.

        The last token of a chunk is the target's, and has all of its text.
        """
        drafted = self.script.tokens_per_chunk - 1
        return [("suffix", 0)] * drafted + [("target", len(self.texts[index]))]

    def ids(self, index: int) -> list[int] | None:
        """The ids of the tokens of chunk number `index`; None if nobody asked for them."""
        if not self.with_ids:
            return None
        per_chunk = self.script.tokens_per_chunk
        return [self._id(place) for place in range(index * per_chunk, (index + 1) * per_chunk)]

    def all_ids(self) -> list[int] | None:
        """The ids of all tokens; None if nobody asked for them."""
        if not self.with_ids:
            return None
        return [self._id(place) for place in range(self.completion_tokens)]

    def chances(self, place: int) -> dict[str, float]:
        """Log-probabilities of the token at `place` and of the wrong one, by vLLM's names."""
        token = _FIRST_ID + place
        margin = self.script.wrong_margin
        return {f"token_id:{token}": -0.25, f"token_id:{token + 1}": -0.25 - margin}

    def _id(self, place: int) -> int:
        is_wrong = place == self.script.wrong_token and not self.plain
        return _FIRST_ID + place + is_wrong

    def metrics(self) -> JsonDict:
        """The `metrics` object of an answer."""
        return {
            "time_to_first_token_ms": 12.5,
            "generation_time_ms": 2.0 * len(self.texts),
            "queue_time_ms": 0.02,
            "mean_itl_ms": 2.0,
            "tokens_per_second": 500.0,
            "speculative_decoding": speculation_figures(self.script),
        }


class UnaryDialect(Protocol):
    """How an endpoint words an answer in one piece."""

    def unary(self, reply: Reply) -> JsonDict:
        """The whole answer."""


class Dialect(UnaryDialect, Protocol):
    """How an endpoint words an answer in one piece or as a stream."""

    def opening(self, reply: Reply) -> list[bytes]:
        """Frames before the first text."""

    def piece(self, reply: Reply, index: int) -> bytes:
        """The frame of text number `index`."""

    def closing(self, reply: Reply) -> list[bytes]:
        """Frames after the last text; the last one ends the stream."""

    def failure(self, message: str) -> list[bytes]:
        """Frames of an engine that failed in mid-stream."""


def speculation_figures(script: Script) -> JsonDict | None:
    """`metrics.speculative_decoding`: full steps of eight drafts, accepted ones first."""
    if script.no_speculation:
        return None
    drafted, accepted = script.per_step_drafted, script.per_step_accepted
    if drafted is None:
        drafted = _in_steps(script.drafted, [_SPEC_TOKENS_PER_STEP] * script.drafted)
    if accepted is None:
        accepted = _in_steps(script.accepted, drafted)
        accepted += [0] * (len(drafted) - len(accepted))
    histogram = [0] * (_SPEC_TOKENS_PER_STEP + 1)
    for step in accepted:
        histogram[min(step, _SPEC_TOKENS_PER_STEP)] += 1
    steps, total_drafted, total_accepted = len(drafted), plain_tokens(drafted), sum(accepted)
    figures = {
        "mean_acceptance_length": 1.0 + total_accepted / steps if steps else 1.0,
        "draft_acceptance_rate": total_accepted / total_drafted if total_drafted else 0.0,
        "acceptance_histogram": histogram,
        "num_spec_steps": steps,
        "num_accepted_draft_tokens": total_accepted,
        "num_draft_tokens": total_drafted,
        "num_spec_tokens": _SPEC_TOKENS_PER_STEP,
        "per_step_accepted": accepted or None,
        "per_step_drafted": drafted or None,
    }
    return figures | dict.fromkeys(_DETAILS) if script.summary else figures


def _in_steps(total: int, limits: list[int]) -> list[int]:
    steps = []
    for limit in limits:
        if total <= 0:
            break
        steps.append(min(limit, total))
        total -= steps[-1]
    return steps
