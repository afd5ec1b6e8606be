from pathlib import Path

import pytest

from gateway.verify.prompts import KINDS, PromptsError, read_prompts, shipped_prompts


def test_prompts_of_all_kinds_ship() -> None:
    prompts = shipped_prompts()

    assert list(dict.fromkeys(one.kind for one in prompts)) == list(KINDS)
    assert any(one.is_streamed for one in prompts)
    assert len({str(one.body) for one in prompts}) == len(prompts)


def test_bodies_prompts_and_strings(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        '{"kind": "mine", "messages": [{"role": "user", "content": "a"}], "max_tokens": 3,'
        ' "model": "x", "temperature": 1, "logprobs": false, "stream": true}\n'
        "\n"
        '{"prompt": "b"}\n'
        '"c"\n'
    )

    mine, prompt, text = read_prompts(path)

    assert mine.body == {
        "messages": [{"role": "user", "content": "a"}], "max_tokens": 3, "stream": True,
    }  # fmt: skip
    assert (mine.kind, mine.number, mine.is_streamed) == ("mine", 1, True)
    assert prompt.body == {"messages": [{"role": "user", "content": "b"}]}
    assert (prompt.kind, prompt.number, prompt.is_streamed) == ("prompts", 3, False)
    assert text.body == {"messages": [{"role": "user", "content": "c"}]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"prompt": "a"}\nhello\n', "line 2 is not JSON"),
        ("[1]\n", "line 1 is neither an object nor a string"),
        ('{"text": "a"}\n', "line 1 has neither messages nor a prompt"),
        ('{"prompt": "a", "kind": 3}\n', "line 1: kind is no name"),
        ('{"messages": []}\n', "line 1 has neither"),
        ("\n", "has no prompts"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(text)

    with pytest.raises(PromptsError, match=message):
        read_prompts(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PromptsError, match="No such file"):
        read_prompts(tmp_path / "absent")
    with pytest.raises(PromptsError, match="Is a directory"):
        read_prompts(tmp_path)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(PromptsError, match="not UTF-8"):
        read_prompts(binary)
