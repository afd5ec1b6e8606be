"""Recorded prompts as requests, by kind."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from bench.engine.plan import SEED, Plan
from loadtest.conversations import DataError, Message, Record, read_folder

KINDS = ("chat", "code", "edit", "agent")
_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CHARACTERS_PER_TOKEN = 3  # of code; a little low, so that an edit is seldom cut


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    Attributes:
        messages: The whole history, the newest last.
        prediction: What the answer is expected to repeat.
        temperature: 0 is greedy.
        ignore_eos: Whether the answer goes on to `most_tokens` even after an end-of-text token.
    """

    messages: Sequence[Message]
    most_tokens: int
    prediction: str | None = None
    temperature: float = 0.0
    ignore_eos: bool = False


Session = Sequence[Ask]
"""Requests that follow one another, each with the recorded history before it."""
Pools = Mapping[str, Sequence[Session]]


def load_pools(folder: Path, plan: Plan, kinds: Collection[str] = KINDS) -> Pools:
    """Read every file of a folder; sessions by kind, in an order that is the same in every run.

    A prompt that is in two files is taken once. Records of other kinds than `kinds` are left out.

    Raises:
        DataError: A line is no such record, or there is none.
    """
    found: dict[str, list[Session]] = defaultdict(list)
    seen: set[str] = set()
    for record in read_folder(folder):
        kind = kind_of(record)
        session = _session(record, kind, plan)
        first = json.dumps(session[0].messages)
        if kind in kinds and first not in seen:
            seen.add(first)
            found[kind].append(session)
    if not found:
        raise DataError(f"{folder}: no prompts in *.jsonl")
    for sessions in found.values():
        Random(SEED).shuffle(sessions)  # the same in every run
    return found


def kind_of(record: Record) -> str:
    """The kind of a record: one of `KINDS`, or its category if none of them fits."""
    if record.is_session:
        return "agent"
    return record.category if record.kind == "chat" and record.reference else record.kind


def prediction_of(prompt: str) -> str:
    """The code that a prompt asks to edit: its last fenced block, or all of it without one."""
    blocks: list[str] = _FENCED.findall(prompt)
    return blocks[-1] if blocks else prompt


def _session(record: Record, kind: str, plan: Plan) -> Session:
    if kind == "agent":
        prompts = islice(record.conversation.prompts(), plan.turns)
        return [Ask(messages, plan.answer_tokens) for messages in prompts]
    (messages,) = record.conversation.prompts()
    if kind != "edit":
        return [Ask(messages, plan.answer_tokens)]
    length = len(record.reference) // _CHARACTERS_PER_TOKEN
    most = min(plan.edit_tokens, max(plan.answer_tokens, length))
    return [Ask(messages, most, prediction=prediction_of(messages[-1]["content"]))]
