import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError
from engine.training import ChatTemplate
from engine.tuning.workload import MOST_TOKENS, Workload, read_workload


class Letters(ChatTemplate):
    """A template that needs no tokenizer: a token for each letter."""

    def __init__(self) -> None:
        pass

    def split(
        self, messages: Sequence[Mapping[str, Any]], end: int, tools: Sequence[Any] | None
    ) -> tuple[list[int], list[int]]:
        return [ord(letter) for one in messages[:end] for letter in one["content"]], []


def read(folder: Path, *lines: object, most_tokens: int = 1000) -> Workload:
    path = folder / "chat.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return read_workload(path, Letters(), most_tokens=most_tokens)


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param({"messages": [said("user", "hi")]}, id="messages"),
        pytest.param({"conversations": [{"from": "human", "value": "hi"}]}, id="ShareGPT"),
        pytest.param({"prompt": "hi"}, id="a prompt"),
        pytest.param("hi", id="a text"),
        pytest.param({"messages": [said("user", "hi"), said("assistant", "yes")]}, id="answered"),
    ],
)
def test_all_forms_are_read(tmp_path: Path, line: object) -> None:
    (prompt,) = read(tmp_path, line).prompts

    assert list(prompt.tokens) == [ord("h"), ord("i")]
    assert prompt.most == MOST_TOKENS


def test_a_conversation_is_asked_up_to_its_last_question_that_fits(tmp_path: Path) -> None:
    turns = [said("user", "aa"), said("assistant", "b" * 50), said("user", "c")]

    (whole,) = read(tmp_path, {"messages": turns}).prompts
    (begin,) = read(tmp_path, {"messages": turns}, most_tokens=MOST_TOKENS + 10).prompts

    assert len(whole.tokens) == 53
    assert list(begin.tokens) == [ord("a"), ord("a")]


def test_recorded_requests_say_how_long_answers_may_be(tmp_path: Path) -> None:
    bodies = [
        {"model": "m", "messages": [said("user", "a")], "max_tokens": 9, "temperature": 1.0},
        {"model": "m", "messages": [said("user", "b")], "max_completion_tokens": 10_000},
    ]

    assert [prompt.most for prompt in read(tmp_path, *bodies).prompts] == [9, MOST_TOKENS]


def test_what_cannot_be_asked_is_counted(tmp_path: Path) -> None:
    found = read(tmp_path, {"prompt": "hi"}, {"text": "plain"}, {"a": 1}, {"a": 2})

    assert found.dropped == {
        "no question": 1,
        "no messages, conversations, prompt or text": 2,
    }


def test_the_digest_tells_workloads_apart(tmp_path: Path) -> None:
    first = read(tmp_path, {"prompt": "hi"}).digest

    assert read(tmp_path, {"prompt": "hi"}).digest == first
    assert read(tmp_path, {"prompt": "ho"}).digest != first


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        pytest.param("a.jsonl", b"", "no usable prompt: the file is empty", id="empty"),
        pytest.param("a.jsonl", b"not json\n", "no usable prompt: 1 not JSON", id="no JSON"),
        pytest.param("a.txt", b"a text", "JSON Lines are needed", id="a text"),
        pytest.param("a.jsonl", b"\xff\xfe", "not UTF-8", id="not UTF-8"),
    ],
)
def test_a_file_without_prompts_is_one_line(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=problem) as refused:
        read_workload(path, Letters(), most_tokens=1000)

    assert len(refused.value.problems) == 1


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_workload(tmp_path / "none.jsonl", Letters(), most_tokens=1000)
