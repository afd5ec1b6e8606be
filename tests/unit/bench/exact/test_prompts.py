import json
from pathlib import Path

import pytest

from bench.exact.prompts import MOST_BYTES, prompts_of
from gateway.verify import KINDS, shipped_prompts
from loadtest.conversations import DataError

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}


def write(folder: Path, *records: object) -> Path:
    lines = "\n".join(json.dumps(record) for record in records)
    (folder / "data.jsonl").write_text(lines, encoding="utf-8")
    return folder


def single(category: str, text: str, **fields: object) -> dict[str, object]:
    return {"category": category, "messages": [{"role": "user", "content": text}], **fields}


def recorded(folder: Path) -> dict[str, list[str]]:
    """Texts by kind of those prompts that the folder has."""
    known = (folder / "data.jsonl").read_text("utf-8")
    found: dict[str, list[str]] = {}
    for prompt in prompts_of(folder, each=20, answer_tokens=32):
        text = prompt.body["messages"][0]["content"]
        if json.dumps(text) in known:
            found.setdefault(prompt.kind, []).append(text)
    return found


def test_all_kinds_come_equally_often_and_in_turn(tmp_path: Path) -> None:
    prompts = prompts_of(tmp_path, each=20, answer_tokens=32)

    assert [prompt.kind for prompt in prompts] == [*KINDS] * 20
    assert [prompt.number for prompt in prompts] == list(range(1, 241))
    assert len({json.dumps(prompt.body) for prompt in prompts}) == 240


def test_the_prompts_that_ship_are_the_first_of_each_kind(tmp_path: Path) -> None:
    asked = [p.body["messages"] for p in prompts_of(tmp_path, each=9, answer_tokens=32)]

    assert all(prompt.body["messages"] in asked for prompt in shipped_prompts())


def test_answers_are_short_and_room_is_for_those_that_end_by_themselves(tmp_path: Path) -> None:
    most = {p.kind: p.body["max_tokens"] for p in prompts_of(tmp_path, each=1, answer_tokens=32)}

    assert most["chat"] == most["reasoning"] == 32
    assert most["tool"] > 32


def test_recorded_prompts_have_the_kind_of_their_category(tmp_path: Path) -> None:
    write(
        tmp_path,
        single("math", "One and one?"),
        single("code_edit", "Rename it."),
        single("translation", "Bonjour"),
        single("stem", "Why is the sky blue?"),
        single("rag", "Long. " * 400),
        {
            "category": "agent",
            "turns": [{"messages": [{"role": "user", "content": "ls"}], "response": "ok"}],
        },
    )

    assert {kind: sorted(texts) for kind, texts in recorded(tmp_path).items()} == {
        "reasoning": ["One and one?"],
        "code": ["Rename it.", "ls"],
        "language": ["Bonjour"],
        "chat": ["Why is the sky blue?"],
        "long_context": ["Long. " * 400],
    }


def test_longer_prompts_than_the_model_could_have_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, single("stem", "ä" * (MOST_BYTES // 2 + 1)))

    assert recorded(tmp_path) == {}


def test_a_schema_in_the_prompt_becomes_the_response_format(tmp_path: Path) -> None:
    asked = f"Match this schema: {json.dumps(SCHEMA)} Who?"
    write(tmp_path, single("json_extraction", asked), single("json_extraction", "As JSON, please."))

    formats = {
        prompt.body["messages"][0]["content"]: prompt.body["response_format"]
        for prompt in prompts_of(tmp_path, each=20, answer_tokens=32)
        if prompt.kind == "json_schema"
    }

    assert formats[asked]["json_schema"]["schema"] == SCHEMA
    assert formats["As JSON, please."] == {"type": "json_object"}


def test_other_files_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.jsonl, line 1"):
        prompts_of(write(tmp_path, {"other": 1}), each=1, answer_tokens=32)
