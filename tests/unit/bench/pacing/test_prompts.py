"""Short prompts of one turn, each once."""

import json
from pathlib import Path

import pytest

from bench.pacing.prompts import load_prompts
from loadtest.conversations import DataError


def record(text: str, category: str) -> str:
    messages = [{"role": "user", "content": text}]
    return json.dumps({"id": text, "category": category, "messages": messages})


GOOD = [
    record("Say hello.", "writing"),
    record("Sort a list.", "code"),
    record("Mend this.", "code_edit"),
]


def folder_of(tmp_path: Path, lines: list[str]) -> Path:
    (tmp_path / "some.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def test_kinds_come_from_categories(tmp_path: Path) -> None:
    prompts = load_prompts(folder_of(tmp_path, GOOD))

    assert prompts["chat"] == [({"role": "user", "content": "Say hello."},)]
    assert prompts["code"] == [({"role": "user", "content": "Sort a list."},)]
    assert prompts["edit"] == [({"role": "user", "content": "Mend this."},)]


def test_sessions_long_prompts_and_second_copies_are_left_out(tmp_path: Path) -> None:
    session = {"turns": [{"messages": [{"role": "user", "content": "Go."}], "response": "Yes."}]}
    more = [json.dumps(session), record("x" * 5_000, "writing"), GOOD[0]]
    prompts = load_prompts(folder_of(tmp_path, GOOD + more))

    assert {kind: len(found) for kind, found in prompts.items()} == {
        "chat": 1,
        "code": 1,
        "edit": 1,
    }


def test_a_kind_without_a_prompt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no prompts for edit"):
        load_prompts(folder_of(tmp_path, GOOD[:2]))
