"""Your own data: formats, what is left out and why, and who is held out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.errors import TrainingError
from engine.training.chat import ChatTemplate
from engine.training.data import OwnData, read_data
from tests.unit.engine.training.test_chat import TEMPLATE, write_tokenizer

STRICT = (
    "{% for m in messages %}{% if m['role'] not in ('user', 'assistant') %}"
    "{{ raise_exception('only user and assistant, got ' + m['role']) }}{% endif %}"
    "{{ '<s>' + m['role'] + ':' + m['content'] + '</s>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant:' }}{% endif %}"
)
TURNS = [
    {"role": "user", "content": "a?"},
    {"role": "assistant", "content": "b."},
    {"role": "user", "content": "c?"},
    {"role": "assistant", "content": "d."},
]


class Data:
    """Files in a folder, and a template to read them with."""

    def __init__(self, folder: Path, template: str = TEMPLATE) -> None:
        self._folder = folder
        self.template = ChatTemplate(write_tokenizer(folder / "tokenizer", template))

    def read(self, *records: Any, every: int = 1_000_000, most: int = 500) -> OwnData:
        lines = [one if isinstance(one, str) else json.dumps(one) for one in records]
        return self.read_files({"own.jsonl": "\n".join(lines)}, every=every, most=most)

    def read_files(self, files: dict[str, str], *, every: int = 50, most: int = 500) -> OwnData:
        for name, text in files.items():
            (self._folder / name).write_text(text, encoding="utf-8")
        paths = [self._folder / name for name in files]
        return read_data(paths, self.template, max_tokens=most, held_out_every=every)

    def texts(self, tokens: Sequence[int]) -> str:
        return self.template.decode(tokens)


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data(tmp_path)


def test_each_turn_of_the_assistant_becomes_a_document(data: Data) -> None:
    found = data.read({"messages": TURNS})

    first, second = found.documents
    assert data.texts(first.prompt) == "systemuser:a?assistant:"
    assert data.texts(first.answer) == "b."
    assert data.texts(second.prompt) == "systemuser:a?assistant:b.user:c?assistant:"
    assert data.texts(second.answer) == "d."
    assert first.answer[-1] == 1  # the end token, which the target writes, too
    assert [one.number for one in found.documents] == [-1, -2]
    assert (first.kind, first.is_given, found.prompts) == ("own", True, [])


def test_a_line_break_behind_a_turn_is_not_learnt(tmp_path: Path) -> None:
    found = Data(tmp_path, STRICT).read({"messages": TURNS[:2]})

    assert found.documents[0].answer[-1] == 1


@pytest.mark.parametrize(
    "record",
    [
        {"conversations": [{"from": "human", "value": "a?"}, {"from": "gpt", "value": "b."}]},
        {"prompt": "a?", "completion": "b."},
        {"messages": [TURNS[0], {"role": "assistant", "content": [{"text": "b"}, {"text": "."}]}]},
    ],
    ids=["ShareGPT", "completion", "parts"],
)
def test_other_forms_are_read_alike(data: Data, record: Any) -> None:
    (document,) = data.read(record).documents

    assert data.texts([*document.prompt, *document.answer]) == "systemuser:a?assistant:b."


@pytest.mark.parametrize("record", [{"prompt": "a?"}, '"a?"', {"messages": TURNS[:1]}])
def test_prompts_without_an_answer_are_for_the_target(data: Data, record: Any) -> None:
    found = data.read(record)

    (prompt,) = found.prompts
    assert data.texts(prompt.prompt) == "systemuser:a?assistant:"
    assert (prompt.answer, prompt.is_given, found.documents) == ([], False, [])


def test_texts_are_cut_into_pieces(data: Data) -> None:
    found = data.read_files({"book.txt": "abcdefghij" * 4}, most=16)

    assert [len(one.prompt) + len(one.answer) for one in found.documents] == [16, 16, 8]
    whole = "".join(data.texts([*one.prompt, *one.answer]) for one in found.documents)
    assert whole == "abcdefghij" * 4


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("3", "not an object"),
        ({"question": "?"}, "no messages, conversations, prompt or text"),
        ({"messages": []}, "no messages"),
        ({"messages": [{"content": "a"}]}, "a message without role"),
        ({"messages": [{"role": "user", "content": {"image": "x"}}]}, "content that is not text"),
        ({"messages": [{"role": "system", "content": "a"}]}, "only a system prompt"),
        ({"text": "a"}, "nothing to learn from: no answer and no question"),
    ],
)
def test_what_is_left_out_is_counted_with_its_place(data: Data, record: Any, reason: str) -> None:
    report = data.read({"messages": TURNS}, record).report

    assert report.dropped == {reason: 1}
    assert report.places == {reason: ["own.jsonl:2"]}
    assert f"data: 1 left out: {reason} (own.jsonl:2)" in list(report.lines())
    assert report.as_json()["dropped"][0]["places"] == ["own.jsonl:2"]


def test_what_the_template_refuses_is_left_out_without_its_text(tmp_path: Path) -> None:
    secret = {"role": "system", "content": "secret"}

    report = Data(tmp_path, STRICT).read({"messages": TURNS}, {"messages": [secret, *TURNS]}).report

    (reason,) = report.dropped
    assert reason.startswith("the chat template refuses it: only user and assistant")
    assert "secret" not in json.dumps(report.as_json())


def test_a_template_that_rewrites_earlier_turns_is_named(tmp_path: Path) -> None:
    last_only = "{{ messages[-1]['content'] }}{% if add_generation_prompt %}:{% endif %}"

    data = Data(tmp_path, last_only)

    with pytest.raises(TrainingError, match="renders earlier turns otherwise"):
        data.read({"messages": TURNS})


def test_turns_beyond_the_longest_document_are_left_out(data: Data) -> None:
    found = data.read({"messages": TURNS}, most=30)

    assert len(found.documents) == 1


def test_a_conversation_that_is_too_long_from_the_start_is_left_out(data: Data) -> None:
    long = {"messages": [{"role": "user", "content": "x" * 100}, TURNS[1]]}

    report = data.read({"messages": TURNS[:2]}, long, most=40).report

    assert report.dropped == {"its first turn ends beyond data.max_tokens (40)": 1}


def test_only_the_first_places_are_named(data: Data) -> None:
    report = data.read({"messages": TURNS}, *["{"] * 8).report

    assert len(report.places["not JSON"]) == 5
    assert any(line.endswith(" ...)") for line in report.lines())


def conversations(count: int) -> list[Any]:
    asked = ({"role": "user", "content": f"{at}?"} for at in range(count))
    return [{"messages": [one, *TURNS[1:]]} for one in asked]


def test_whole_conversations_are_held_out_whatever_their_order(data: Data) -> None:
    records = conversations(60)

    def held_out(found: OwnData) -> set[str]:
        return {data.texts(one.prompt)[:14] for one in found.documents if one.held_out}

    forwards = data.read(*records, every=4)
    backwards = data.read(*reversed(records), every=4)

    assert held_out(forwards) == held_out(backwards)
    assert 5 <= forwards.report.held_out <= 30
    trained = {data.texts(one.prompt)[:14] for one in forwards.documents if not one.held_out}
    assert not trained & held_out(forwards)


def test_a_repeated_conversation_counts_once(data: Data) -> None:
    report = data.read({"messages": TURNS}, {"messages": TURNS}).report

    assert report.dropped == {"repeated": 1}


def test_files_without_anything_to_learn_from_are_an_error(data: Data) -> None:
    with pytest.raises(TrainingError, match=r"nothing to learn from: .*2 left out: not JSON"):
        data.read("{", "}")
    with pytest.raises(TrainingError, match="the files are empty"):
        data.read_files({"empty.jsonl": "\n\n"})


def test_a_file_that_cannot_be_read_is_named(data: Data, tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"\xff\xfe\xff")

    for name in ("missing.jsonl", "latin.txt"):
        with pytest.raises(TrainingError, match=rf"{name}: cannot be read"):
            read_data([tmp_path / name], data.template, max_tokens=99, held_out_every=9)


def test_the_same_files_are_the_same_data(data: Data) -> None:
    assert data.read(*conversations(3)).digest == data.read(*conversations(3)).digest
    assert data.read(*conversations(3)).digest != data.read(*conversations(4)).digest
