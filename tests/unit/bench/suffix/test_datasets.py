import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.suffix.datasets import (
    DataSet,
    exchanges_of,
    groups_of,
    is_edit_set,
    load_dataset,
    load_saved,
    save_datasets,
)
from loadtest.conversations import record_of

ASKED = [{"role": "user", "content": "q"}]
TURNS = [{"messages": ASKED, "response": "one"}, {"messages": ASKED, "response": "two"}]


def letters(texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
    return [([ord(letter) for letter in text], [*range(len(text))]) for text in texts]


def load(path: Path, records: Sequence[object], *, most_tokens: int = 10_000) -> DataSet | None:
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return load_dataset(path, letters, most_tokens=most_tokens)


def test_each_turn_is_a_request_with_the_recorded_history_before_it() -> None:
    first, second = exchanges_of(record_of({"turns": TURNS}))

    assert first.prompt == "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
    assert second.prompt == f"{first.prompt}one<|im_end|>\n{first.prompt}"
    assert (first.answer, second.answer) == ("one<|im_end|>", "two<|im_end|>")
    assert (first.is_last, second.is_last) == (False, True)


def test_a_file_without_recorded_answers_is_no_data_set(tmp_path: Path) -> None:
    assert load(tmp_path / "bare.jsonl", [{"messages": ASKED, "followups": ["more"]}]) is None


def test_requests_beyond_the_bound_are_left_out_and_counted(tmp_path: Path) -> None:
    dataset = load(tmp_path / "long.jsonl", [{"turns": TURNS}], most_tokens=100)

    assert dataset is not None
    assert (len(dataset.requests), dataset.left_out) == (1, 1)


def test_a_conversation_is_one_document(tmp_path: Path) -> None:
    dataset = load(tmp_path / "trace_two.jsonl", [{"turns": TURNS}, {"turns": TURNS}])

    assert dataset is not None
    assert [len(conversation) for conversation in dataset.conversations] == [2, 2]
    assert bytes(dataset.documents[0].tolist()).decode().endswith("two<|im_end|>")


@pytest.mark.parametrize(
    ("name", "categories", "is_edit"),
    [
        ("trace_any", ["chat"], True),
        ("edit_any", [], True),
        ("other", ["code_edit", "agent_swe", "math"], True),
        ("other", ["math"], False),
    ],
)
def test_agent_sessions_and_edits_are_recognised(
    name: str, categories: list[str], is_edit: bool
) -> None:
    assert is_edit_set(name, categories) is is_edit


@pytest.mark.parametrize(
    ("name", "category", "groups"),
    [
        ("set/run__1/django__django-12", "agent_swe", ("kind agent_swe", "project django")),
        ("HumanEval/1", "code", ("kind code",)),
        ("", "", ("kind chat",)),
    ],
    ids=["issue", "kind", "nothing"],
)
def test_a_record_s_kind_and_project_are_known(
    name: str, category: str, groups: tuple[str, ...]
) -> None:
    record = record_of({"id": name, "category": category, "messages": ASKED, "reference": "r"})

    assert groups_of(record) == groups
    assert [exchange.groups for exchange in exchanges_of(record)] == [groups]


def test_saved_tokens_come_back(tmp_path: Path) -> None:
    dataset = load(tmp_path / "trace_one.jsonl", [{"turns": TURNS}])
    assert dataset is not None

    save_datasets(tmp_path / "tokens.npz", [dataset])
    found = load_saved(tmp_path / "tokens.npz")["trace_one"]

    assert found.is_edit
    assert [r.is_last for r in found.requests] == [False, True]
    for mine, other in zip(found.requests, dataset.requests, strict=True):
        np.testing.assert_array_equal(mine.prompt, other.prompt)
        np.testing.assert_array_equal(mine.answer, other.answer)
        np.testing.assert_array_equal(mine.kinds, other.kinds)
        assert len(mine.kinds) == len(mine.answer)
