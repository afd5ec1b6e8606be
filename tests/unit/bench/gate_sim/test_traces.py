import json
from pathlib import Path

import numpy as np
import pytest

from bench.gate_sim.traces import rates_by_order, read_traces, texts_of, trace_of
from engine.simulation.texts import DEPTH

WORDS = list("tqbfjoaldgng")


def test_a_repeat_drafts_what_followed_it_before() -> None:
    trace = trace_of([*WORDS, "."], list("tqbfs"))

    assert trace.right.tolist()[2:4] == [2, 1]
    assert trace.offered[2] > trace.right[2]
    assert trace.offered.tolist()[:2] == [0, 0]


def test_a_draft_holds_nothing_that_was_not_written_yet() -> None:
    trace = trace_of(["a", "b"], ["a", "b", "a", "b", "a", "b"])

    assert (trace.offered <= np.arange(2, 8)).all()
    assert trace.offered[2] == 2


def test_the_longest_repeat_is_followed() -> None:
    trace = trace_of(list("wxyz1qyz2"), list("wxyz1"))

    assert trace.right[4] == 1
    assert trace.order[4] < trace.order[2]


def test_rates_are_what_was_seen_of_repeats_of_equal_length() -> None:
    order, offered, right = np.array([1, 1, 2]), np.array([2, 2, 1]), np.array([2, 0, 1])

    rates = rates_by_order(order, offered, right)

    assert rates[1, 0] == pytest.approx(0.5)
    assert rates[1, 1] == pytest.approx(0.75)
    assert rates[2, 0] == pytest.approx(0.75)
    assert ((rates > 0.0) & (rates < 1.0)).all()


def test_texts_of_a_seed_are_the_traces_in_another_order() -> None:
    traces = [trace_of(WORDS, WORDS[i:] * 2) for i in range(5)]

    first, second = texts_of(traces, 0), texts_of(traces, 1)

    assert sorted(first.lengths.tolist()) == sorted(second.lengths.tolist())
    assert first.truth.suffix.shape == (first.lengths.sum(), DEPTH)
    assert (first.truth.suffix_right <= first.offers.suffix_tokens).all()


def test_both_formats_are_read(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "one two three"}]
    answer = "one two three four five six"
    records: list[dict[str, object]] = [
        {"messages": messages, "reference": answer},
        {"turns": [{"messages": messages, "response": answer}] * 2},
        {"messages": messages},
    ]
    lines = "\n".join(json.dumps(record) for record in records)
    (tmp_path / "some.jsonl").write_text(lines, encoding="utf-8")

    traces = read_traces(tmp_path)

    assert [trace.history for trace in traces] == [5, 5, 21]
    assert traces[2].right.max() > traces[1].right.max()


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(match="no recorded answers"):
        read_traces(tmp_path)
