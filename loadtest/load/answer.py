"""What the bytes of one answer mean: its ending, when tokens came, what was drafted. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

_DONE = b"[DONE]"
_TEXTS = ("content", "reasoning", "reasoning_content", "tool_calls")
_COUNTS = ("num_draft_tokens", "num_accepted_draft_tokens", "num_spec_steps")
"""Source: vLLM 0.32, `metrics.speculative_decoding`; specgate adds `sources`."""


@dataclass(slots=True)
class Recording:
    """One request as the client saw it; clocks are CLOCK_MONOTONIC.

    Attributes:
        due_ns: When it should have been sent.
        sent_ns: When it was.
        status: HTTP status; zero when none came.
        request_id: The `x-request-id` of the answer; empty when it has none.
        is_stream: The answer is an event stream.
        packets: Clock and bytes of each read of the body.
        end: The body came whole, or broke off, or the client left, or gave up waiting.
        why: Of one that broke off.
        ended_ns: When that was.
    """

    due_ns: int
    sent_ns: int
    status: int = 0
    is_stream: bool = False
    request_id: str = ""
    packets: list[tuple[int, bytes]] = field(default_factory=list)
    end: Literal["whole", "broken", "left", "late"] = "broken"
    why: str = ""
    ended_ns: int = 0


class Ending(StrEnum):
    """How an answer ended.

    DONE: with its finish reason and, if a stream, one `[DONE]`. ERROR: with an error status, or
    one error event. LEFT: the client left. HUNG: it had not ended in time. NONE: it broke off,
    or ended without saying so. SEVERAL: more than one ending, or something behind it.
    """

    DONE = "done"
    ERROR = "error"
    LEFT = "left"
    HUNG = "hung"
    NONE = "none"
    SEVERAL = "several"


@dataclass(frozen=True, slots=True)
class Speculation:
    """What was drafted for one request, as its answer tells.

    Attributes:
        steps: Target steps that verified a draft.
        by_source: Drafted and accepted tokens of each source, where the server names sources.
    """

    drafted: int
    accepted: int
    steps: int
    by_source: Mapping[str, tuple[int, int]]


class Arrived(NamedTuple):
    """A piece of text.

    Attributes:
        at_ns: Clock when it came.
        characters: Its length, at least 1.
        tokens: Tokens of the answer up to its end; None where the stream does not say.
    """

    at_ns: int
    characters: int
    tokens: int | None


@dataclass(slots=True)
class Answer:
    """One answer, understood.

    Attributes:
        status: HTTP status; zero when none came.
        error: OpenAI's code or type of an error, or what broke it off.
        arrivals: Each piece of text of a stream; of an answer in one piece none.
        events: Events of a stream with something of an answer in them, text or not.
        tokens: Completion tokens; None if the server did not say.
    """

    recording: Recording
    ending: Ending
    error: str | None = None
    arrivals: list[Arrived] = field(default_factory=list)
    tokens: int | None = None
    speculation: Speculation | None = None
    events: int = 0

    @property
    def status(self) -> int:
        """HTTP status; zero when none came."""
        return self.recording.status

    @property
    def ended_ns(self) -> int:
        """Clock at the end."""
        return self.recording.ended_ns

    @property
    def is_counted(self) -> bool:
        """Whether the stream counted the tokens of its text while it ran."""
        return any(each.tokens is not None for each in self.arrivals)

    def first_text_ms(self) -> float | None:
        """From when it was due to its first text; None if no text came as a stream."""
        if not self.arrivals:
            return None
        return (self.arrivals[0].at_ns - self.recording.due_ns) / 1e6

    def gaps_ms(self) -> Iterator[tuple[float, float]]:
        """Gaps between tokens: length, and how many tokens had it.

        A text of k tokens that comes g after the one before is k tokens at g / k each; those
        that come together with the first token had no gap. Where several pieces come until the
        stream counts again, each is as much of those tokens as of their characters. Nothing where
        the stream does not count: a text may be any number of tokens.
        """
        if not self.is_counted:
            return
        last_ns, first_token = self.arrivals[0].at_ns, 1.0
        for at_ns, tokens in self._tokens_by_piece():
            taken = min(first_token, tokens)
            first_token -= taken
            if tokens > taken:
                yield (at_ns - last_ns) / 1e6 / (tokens - taken), tokens - taken
            last_ns = at_ns

    def _tokens_by_piece(self) -> Iterator[tuple[int, float]]:
        """The clock and the tokens of each piece of text."""
        pending: list[Arrived] = []
        counted = 0
        for number, arrived in enumerate(self.arrivals, start=1):
            pending.append(arrived)
            tokens = arrived.tokens
            if tokens is None and number == len(self.arrivals):
                tokens = self.tokens  # the rest is in the final usage
            if tokens is None or tokens <= counted:
                continue
            each = (tokens - counted) / sum(piece.characters for piece in pending)
            yield from ((piece.at_ns, each * piece.characters) for piece in pending)
            pending, counted = [], tokens

    def per_token_ms(self) -> float | None:
        """Mean time of the tokens behind the first; None for one token, or if uncounted."""
        if not self.arrivals or self.tokens is None or self.tokens < 2:
            return None
        return (self.arrivals[-1].at_ns - self.arrivals[0].at_ns) / 1e6 / (self.tokens - 1)

    def total_ms(self) -> float:
        """From when it was due to its end."""
        return (self.ended_ns - self.recording.due_ns) / 1e6


def read_answer(recording: Recording) -> Answer:
    """Understand an answer; never raises, whatever the bytes are."""
    if recording.status == 200 and recording.is_stream:
        return _read_stream(recording)
    return _read_whole(recording)


def text_of(recording: Recording) -> str:
    """The text of a stream: names and arguments of tool calls where they came, no reasoning."""
    pieces: list[str] = []
    for _, data in _frames(recording):
        for choice in _choices_of(_json_of(data)):
            delta = _object_of(choice, "delta")
            pieces.append(choice.get("text") or delta.get("content") or "")
            for call in delta.get("tool_calls") or ():
                function = _object_of(call, "function")
                pieces += [function.get("name") or "", function.get("arguments") or ""]
    return "".join(pieces)


def _read_whole(recording: Recording) -> Answer:
    if (early := _early_ending(recording)) is not None:
        return Answer(recording, early, _break_of(recording))
    page = _json_of(b"".join(data for _, data in recording.packets))
    if recording.status >= 400:
        return Answer(recording, Ending.ERROR, _error_code(page, recording.status))
    if not _is_finished(_choices_of(page)):
        return Answer(recording, Ending.NONE, "not a completion")
    answer = Answer(recording, Ending.DONE)
    _take_figures(page, answer)
    return answer


class _Stream:
    """Counts the endings of a stream, and what came behind the first of them."""

    def __init__(self) -> None:
        self.dones = self.errors = self.behind = 0
        self.is_finished = False

    def ending(self, recording: Recording) -> Ending:
        endings = self.dones + self.errors
        if endings > 1 or self.behind:
            return Ending.SEVERAL
        if (early := _early_ending(recording)) is not None:
            return early
        if self.errors:
            return Ending.ERROR
        return Ending.DONE if self.dones and self.is_finished else Ending.NONE


def _read_stream(recording: Recording) -> Answer:
    answer, stream = Answer(recording, Ending.NONE), _Stream()
    for at_ns, data in _frames(recording):
        if stream.dones or stream.errors:
            stream.behind += data != _DONE
        if data == _DONE:
            stream.dones += 1
            continue
        page = _json_of(data)
        if "error" in page or not page:
            stream.errors += 1
            answer.error = _error_code(page, 200)
            continue
        answer.events += 1
        _take_figures(page, answer)
        choices = _choices_of(page)
        stream.is_finished |= _is_finished(choices)
        if characters := sum(map(_characters_of, choices)):
            tokens = answer.tokens if page.get("usage") else None
            answer.arrivals.append(Arrived(at_ns, characters, tokens))
    answer.ending = stream.ending(recording)
    if answer.ending is Ending.NONE:
        answer.error = _break_of(recording) or answer.error
    return answer


def _early_ending(recording: Recording) -> Ending | None:
    """How it ended if it did not come whole."""
    match recording.end:
        case "left":
            return Ending.LEFT
        case "late":
            return Ending.HUNG
        case "broken":
            return Ending.NONE
        case "whole":
            return None


def _break_of(recording: Recording) -> str | None:
    """The kind of break, without its words."""
    return recording.why.partition(":")[0] or None


def _frames(recording: Recording) -> Iterator[tuple[int, bytes]]:
    """The data of each event that is not a comment, with the clock of its last byte.

    What is left behind the last blank line counts as an event: it is broken off, or unended.
    """
    pending, at_ns = b"", 0
    for at_ns, data in recording.packets:
        *frames, pending = (pending + data).replace(b"\r\n", b"\n").split(b"\n\n")
        yield from ((at_ns, found) for frame in frames if (found := _data_of(frame)))
    if found := _data_of(pending):
        yield at_ns, found


def _data_of(frame: bytes) -> bytes:
    lines = [line[5:].removeprefix(b" ") for line in frame.split(b"\n") if line[:5] == b"data:"]
    return b"\n".join(lines)


def _json_of(data: bytes) -> dict[str, Any]:
    """A JSON object; an empty one for anything else."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _error_code(page: Mapping[str, Any], status: int) -> str:
    error = page.get("error")
    if isinstance(error, dict):
        return str(error.get("code") or error.get("type") or status)
    return "not JSON" if not page else str(status)


def _choices_of(page: Mapping[str, Any]) -> list[dict[str, Any]]:
    choices = page.get("choices")
    return [each for each in choices if isinstance(each, dict)] if isinstance(choices, list) else []


def _is_finished(choices: list[dict[str, Any]]) -> bool:
    return any(choice.get("finish_reason") for choice in choices)


def _characters_of(choice: Mapping[str, Any]) -> int:
    """Length of the text that a choice brings, whatever kind of text it is."""
    delta = _object_of(choice, "delta")
    texts = (choice.get("text"), *(delta.get(name) for name in _TEXTS))
    return sum(len(text if isinstance(text, str) else json.dumps(text)) for text in texts if text)


def _take_figures(page: Mapping[str, Any], answer: Answer) -> None:
    tokens = _object_of(page, "usage").get("completion_tokens")
    if isinstance(tokens, int):
        answer.tokens = tokens
    figures = _object_of(_object_of(page, "metrics"), "speculative_decoding")
    counts = [figures.get(name) for name in _COUNTS]
    drafted, accepted, steps = (each if isinstance(each, int) else None for each in counts)
    if drafted is None or accepted is None or steps is None:
        return
    sources = _object_of(figures, "sources")
    by_source = {
        name: (int(found.get("drafted", 0)), int(found.get("accepted", 0)))
        for name in sources
        if (found := _object_of(sources, name))
    }
    answer.speculation = Speculation(drafted, accepted, steps, by_source)


def _object_of(page: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = page.get(name)
    return found if isinstance(found, dict) else {}
