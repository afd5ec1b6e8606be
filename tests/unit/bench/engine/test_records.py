import json
from pathlib import Path

import pytest

from bench.engine.plan import FULL, QUICK
from bench.engine.records import KINDS, kind_of, load_pools, prediction_of
from loadtest.conversations import DataError, record_of

ASKED = [{"role": "user", "content": "q"}]
PROMPT = "Edit.\n\n```text\nnot this\n```\n\n```python\nx = 1\ny = 2\n```"


def write(path: Path, *records: object) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return path.parent


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"turns": [{"messages": ASKED, "response": "r"}]}, "agent"),
        ({"category": "code_edit", "messages": ASKED, "reference": "r"}, "edit"),
        ({"category": "code", "messages": ASKED, "reference": "r"}, "code"),
        ({"category": "coding", "messages": ASKED, "followups": []}, "chat"),
        ({"category": "math", "messages": ASKED, "reference": "r"}, "math"),
    ],
)
def test_the_kind_of_a_record_follows_from_its_fields(fields: dict[str, object], kind: str) -> None:
    assert kind_of(record_of(fields)) == kind


def test_the_prediction_is_the_code_that_is_to_be_edited() -> None:
    assert prediction_of(PROMPT) == "x = 1\ny = 2\n"
    assert prediction_of("no code") == "no code"


def test_a_session_repeats_what_was_recorded_not_what_was_answered(tmp_path: Path) -> None:
    turns = [{"messages": ASKED, "response": "one"}, {"messages": ASKED, "response": "two"}]

    (session,) = load_pools(write(tmp_path / "t.jsonl", {"turns": turns}), FULL)["agent"]

    assert [message["content"] for message in session[1].messages] == ["q", "one", "q"]


def test_a_session_is_cut_to_the_plan(tmp_path: Path) -> None:
    turns = [{"messages": ASKED, "response": "r"}] * 9

    (session,) = load_pools(write(tmp_path / "t.jsonl", {"turns": turns}), QUICK)["agent"]

    assert len(session) == QUICK.turns


def test_an_edit_may_be_as_long_as_its_reference_within_bounds(tmp_path: Path) -> None:
    records = [
        {"category": "code_edit", "messages": [{"role": "user", "content": name}], "reference": r}
        for name, r in (("short", "x"), ("fair", "x" * 900), ("long", "x" * 9000))
    ]

    sessions = load_pools(write(tmp_path / "e.jsonl", *records), FULL)["edit"]

    assert sorted(session[0].most_tokens for session in sessions) == [200, 300, 400]


def test_a_prompt_that_is_in_two_files_is_taken_once(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", {"messages": ASKED})
    write(tmp_path / "b.jsonl", {"messages": ASKED, "followups": ["more"]})

    assert [len(sessions) for sessions in load_pools(tmp_path, FULL).values()] == [1]


def test_other_kinds_are_left_out(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "a.jsonl",
        {"messages": ASKED},
        {"category": "math", "messages": [{"role": "user", "content": "1+1"}], "reference": "2"},
    )

    assert set(load_pools(folder, FULL)) == {"chat"} < set(KINDS)


def test_a_folder_without_prompts_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no prompts"):
        load_pools(tmp_path, FULL)
