"""What a worker answered, reduced to what must be the same with and without speculation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.drafting import SOURCE_NAMES

# Bits of per_step_drafted: how many tokens, and above them the codes of one source or two.
_DRAFTED, _CODE, _CODES_AT = (1 << 16) - 1, (1 << 4) - 1, (16, 20)


@dataclass(frozen=True)
class Choice:
    """One of an answer's texts."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str
    stop_reason: str | int | None


@dataclass(frozen=True)
class Drafts:
    """What was drafted for an answer: in total, in each step that verified something, by whom."""

    drafted: int = 0
    accepted: int = 0
    drafted_by_step: tuple[int, ...] = ()
    accepted_by_step: tuple[int, ...] = ()
    sources: frozenset[str] = frozenset()

    @classmethod
    def read(cls, metrics: Mapping[str, Any] | None) -> "Drafts":
        """Read an answer's `metrics`; nothing is drafted where the worker says nothing of it."""
        found = (metrics or {}).get("speculative_decoding")
        if not found:
            return cls()
        steps = found.get("per_step_drafted") or ()
        codes = {step >> at & _CODE for step in steps for at in _CODES_AT}
        return cls(
            found["num_draft_tokens"],
            found["num_accepted_draft_tokens"],
            tuple(step & _DRAFTED for step in steps),
            tuple(found.get("per_step_accepted") or ()),
            frozenset(name for code, name in SOURCE_NAMES.items() if code in codes),
        )


@dataclass(frozen=True)
class Logprobs:
    """Log probabilities of a choice: of the tokens it has, and of the likeliest at each place."""

    chosen: tuple[float, ...]
    likeliest: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Answer:
    """A whole answer; equal to another if a client could not tell them apart by their content."""

    choices: tuple[Choice, ...]
    completion_tokens: int
    drafts: Drafts = field(compare=False)
    cached_tokens: int = field(compare=False)
    logprobs: tuple[Logprobs, ...] = field(compare=False)

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> "Answer":
        """Read the JSON of a chat or of a completion."""
        choices = sorted(answer["choices"], key=lambda choice: int(choice["index"]))
        usage = answer["usage"]
        return cls(
            tuple(_choice(choice) for choice in choices),
            usage["completion_tokens"],
            Drafts.read(answer.get("metrics")),
            (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
            tuple(_logprobs(choice["logprobs"]) for choice in choices if choice.get("logprobs")),
        )

    @property
    def token_ids(self) -> list[int]:
        """The ids of an answer that has one choice."""
        (choice,) = self.choices
        return list(choice.token_ids)


@dataclass(frozen=True)
class Frames:
    """A streamed answer of one choice, put together again."""

    choice: Choice
    chunks: int = field(compare=False)
    usages: tuple[Mapping[str, Any], ...] = field(compare=False)

    @classmethod
    def read(cls, chunks: Iterable[Mapping[str, Any]]) -> "Frames":
        """Read a stream's chunks up to its end."""
        text, count = "", 0
        ids: list[int] = []
        usages: list[Mapping[str, Any]] = []
        finish_reason, stop_reason = "", None
        for chunk in chunks:
            if chunk.get("usage"):
                usages.append(chunk["usage"])
            for piece in chunk["choices"]:
                count += 1
                text += piece["text"] if "text" in piece else piece["delta"].get("content") or ""
                ids += piece.get("token_ids") or []
                finish_reason = piece.get("finish_reason") or finish_reason
                stop_reason = piece.get("stop_reason") or stop_reason
        return cls(Choice(text, tuple(ids), finish_reason, stop_reason), count, tuple(usages))


def _choice(choice: Mapping[str, Any]) -> Choice:
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    return Choice(
        text, tuple(choice["token_ids"]), choice["finish_reason"], choice.get("stop_reason")
    )


def _logprobs(found: Mapping[str, Any]) -> Logprobs:
    if "content" in found:  # of a chat
        likeliest = [[top["logprob"] for top in one["top_logprobs"]] for one in found["content"]]
        chosen = [one["logprob"] for one in found["content"]]
    else:
        likeliest = [list(top.values()) for top in found["top_logprobs"]]
        chosen = found["token_logprobs"]
    return Logprobs(tuple(chosen), tuple(tuple(sorted(one, reverse=True)) for one in likeliest))
