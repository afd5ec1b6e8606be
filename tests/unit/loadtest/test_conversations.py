import json
from pathlib import Path

import pytest

from loadtest.conversations import Conversation, DataError, Turn, read_folder, record_of

ASKED = [{"role": "user", "content": "q"}]
TURNS = [{"messages": ASKED, "response": "one"}, {"messages": ASKED, "response": "two"}]


def test_every_turn_sends_the_history_with_the_replies_that_were_fixed() -> None:
    first, second = {"role": "user", "content": "a"}, {"role": "user", "content": "c"}
    conversation = Conversation((Turn((first,), reply="b"), Turn((second,), reply="d")))

    prompts = [list(messages) for messages in conversation.prompts()]

    assert prompts == [[first], [first, {"role": "assistant", "content": "b"}, second]]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"category": "agent_swe", "turns": TURNS}, "session"),
        ({"category": "code_edit", "messages": ASKED}, "edit"),
        ({"category": "code", "messages": ASKED}, "code"),
        ({"category": "coding", "messages": ASKED}, "chat"),
        ({"messages": ASKED}, "chat"),
    ],
)
def test_the_kind_follows_from_the_category(fields: dict[str, object], kind: str) -> None:
    assert record_of(fields).kind == kind


def test_exchanges_of_a_session_repeat_the_recorded_replies() -> None:
    exchanges = list(record_of({"turns": TURNS}).exchanges())

    assert [answer for _, answer in exchanges] == ["one", "two"]
    assert [message["content"] for message in exchanges[1][0]] == ["q", "one", "q"]


def test_content_that_is_no_string_becomes_its_json() -> None:
    ((_, answer),) = record_of({"messages": ASKED, "reference": {"a": 1}}).exchanges()

    assert answer == '{"a": 1}'


def test_a_prompt_without_a_reference_has_no_exchange() -> None:
    assert list(record_of({"messages": ASKED, "followups": ["more"]}).exchanges()) == []


def test_files_are_read_by_name_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    for name in ("b", "a"):
        line = json.dumps({"category": name, "messages": ASKED})
        (tmp_path / f"{name}.jsonl").write_text(f"\n{line}\n\n", encoding="utf-8")

    assert [record.category for record in read_folder(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize(
    "line",
    [
        *("{", "[]", '{"id": 1}', '{"reference": "x"}', '{"messages": []}', '{"turns": []}'),
        *('{"messages": [{"role": "user"}]}', '{"turns": [{"response": ""}]}', '{"messages": 3}'),
    ],
)
def test_the_error_names_the_bad_line(tmp_path: Path, line: str) -> None:
    good = json.dumps({"messages": ASKED})
    (tmp_path / "bad.jsonl").write_text(f"{good}\n{line}", encoding="utf-8")

    with pytest.raises(DataError, match=r"bad\.jsonl, line 2"):
        list(read_folder(tmp_path))
