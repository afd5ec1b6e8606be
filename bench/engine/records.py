"""Recorded prompts as requests: read from JSON lines, told apart by what they hold."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.engine.plan import SEED, Plan
from bench.suffix.datasets import DataError, Record, read_records

Message = Mapping[str, str]

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
        ignore_eos: Whether the answer goes on to `most_tokens` whatever is drawn.
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
    for path in sorted(folder.glob("*.jsonl")):
        for record in read_records(path):
            kind = kind_of(record)
            session = _session(record, kind, plan, path)
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
    """Tell what a record is: one of `KINDS`, or its own category where it is none of them."""
    if "turns" in record:
        return "agent"
    category = str(record.get("category", ""))
    if category == "code_edit":
        return "edit"
    if category == "code" or "reference" in record:
        return category
    return "chat"


def prediction_of(prompt: str) -> str:
    """The code that a prompt asks to edit: its last fenced block, or all of it without one."""
    blocks: list[str] = _FENCED.findall(prompt)
    return blocks[-1] if blocks else prompt


def _session(record: Record, kind: str, plan: Plan, path: Path) -> Session:
    try:
        if kind == "agent":
            return _turns(record, plan)
        messages = [_message(message) for message in _items(record["messages"])]
        if kind != "edit":
            return [Ask(messages, plan.answer_tokens)]
        length = len(_text(record.get("reference", ""))) // _CHARACTERS_PER_TOKEN
        most = min(plan.edit_tokens, max(plan.answer_tokens, length))
        return [Ask(messages, most, prediction=prediction_of(messages[-1]["content"]))]
    except (KeyError, TypeError, IndexError) as error:
        raise DataError(f"{path.name}: record {record.get('id')}: {error!r}") from error


def _turns(record: Record, plan: Plan) -> Session:
    history: list[Message] = []
    asks = []
    for turn in _items(record["turns"])[: plan.turns]:
        history = [*history, *(_message(message) for message in _items(turn["messages"]))]
        asks.append(Ask(history, plan.answer_tokens))
        history = [*history, {"role": "assistant", "content": _text(turn["response"])}]
    if not asks:
        raise IndexError("no turns")
    return asks


def _items(value: object) -> Sequence[Record]:
    if not isinstance(value, list) or not value:
        raise TypeError("expected a list that is not empty")
    return value


def _message(message: Record) -> Message:
    return {"role": str(message["role"]), "content": _text(message["content"])}


def _text(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content)
