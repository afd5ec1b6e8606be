import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from loadtest.conversations import DataError
from loadtest.load.recorded import RecordedPrompts
from loadtest.load.scenario import Kind, Traffic


def traffic(kind: Kind, **more: Any) -> Traffic:
    fields = {"name": kind, "prompts": kind, "output_tokens": {"low": 1, "high": 1}, **more}
    return Traffic.model_validate(fields)


def single(text: str, category: str = "writing") -> dict[str, Any]:
    return {"id": "x", "category": category, "messages": [{"role": "user", "content": text}]}


def turns(*texts: str) -> dict[str, Any]:
    said = [{"messages": [{"role": "user", "content": text}], "response": "r"} for text in texts]
    return {"id": "s", "category": "agent", "turns": said}


def folder_of(tmp_path: Path, *records: dict[str, Any]) -> Path:
    lines = "\n".join(json.dumps(record) for record in records)
    (tmp_path / "data.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "text"),
    [("chat", "hello"), ("code", "def"), ("edit", "change"), ("document", "w" * 6000)],
)
def test_a_prompt_is_drawn_for_the_kind_that_its_record_is(
    tmp_path: Path, kind: Kind, text: str
) -> None:
    folder = folder_of(
        tmp_path,
        *(single("hello"), single("def", "code"), single("change", "code_edit")),
        single("w" * 6000),
    )

    drawn = RecordedPrompts(folder, [traffic(kind)]).draw(traffic(kind), Random(0))

    assert drawn.turns[0].messages[0]["content"] == text


def test_a_session_ends_where_it_no_longer_fits(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, turns("a" * 10, "b" * 10, "c" * 100))
    asked = traffic("session", turns=9, most_prompt_characters=50)

    drawn = RecordedPrompts(folder, [asked]).draw(asked, Random(0))

    assert [turn.messages[0]["content"][0] for turn in drawn.turns] == ["a", "b"]


def test_a_session_has_no_more_turns_than_its_traffic(tmp_path: Path) -> None:
    asked = traffic("session", turns=1)

    drawn = RecordedPrompts(folder_of(tmp_path, turns("a", "b")), [asked]).draw(asked, Random(0))

    assert len(drawn.turns) == 1


@pytest.mark.parametrize(
    "asked",
    [traffic("code"), traffic("chat", most_prompt_characters=3)],
    ids=["no such kind", "all are too long"],
)
def test_a_kind_without_a_fitting_prompt_is_refused(tmp_path: Path, asked: Traffic) -> None:
    with pytest.raises(DataError, match="no prompt for"):
        RecordedPrompts(folder_of(tmp_path, single("hello")), [asked])
