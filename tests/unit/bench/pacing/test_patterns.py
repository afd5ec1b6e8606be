"""Patterns hold what their kind says, and come back from a file as they were."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from bench.pacing.patterns import (
    Chunk,
    Pattern,
    load_patterns,
    save_patterns,
    speculative,
    synthetic,
)
from loadtest.conversations import DataError

MADE_UP = {pattern.kind: pattern for pattern in synthetic(tokens=300, copies=1, seed=1)}
LINE = '{"name": "a", "kind": "k", "chunks": [[1, "x", 1]], "prompt": null, "run": null}'


def gaps_ms(pattern: Pattern) -> list[float]:
    return list(np.diff([chunk.offset_ns for chunk in pattern.chunks]) / 1e6)


def test_every_kind_has_all_its_tokens() -> None:
    assert {pattern.tokens for pattern in MADE_UP.values()} == {300}
    assert sorted(MADE_UP) == ["bursts", "ramps", "slow-bursts", "stalls", "steady"]


def test_steady_is_fifty_tokens_a_second() -> None:
    assert gaps_ms(MADE_UP["steady"]) == pytest.approx([20.0] * 299)


def test_bursts_are_of_one_to_sixteen_tokens_on_a_beat() -> None:
    sizes = [chunk.tokens for chunk in MADE_UP["bursts"].chunks]

    assert min(sizes[:-1]) >= 1
    assert max(sizes) == 16
    assert gaps_ms(MADE_UP["bursts"]) == pytest.approx([40.0] * (len(sizes) - 1))


def test_slow_bursts_are_fifty_tokens_a_second() -> None:
    gaps = gaps_ms(MADE_UP["slow-bursts"])

    assert gaps == pytest.approx([170.0] * len(gaps))


def test_stalls_are_a_second_longer_and_more_than_one_in_a_hundred() -> None:
    stalls = [gap for gap in gaps_ms(MADE_UP["stalls"]) if gap > 30]

    assert stalls == pytest.approx([1020.0] * 3)
    assert len(stalls) >= 0.01 * 300


def test_ramps_go_from_a_quarter_of_the_rate_to_four_times_it() -> None:
    gaps = gaps_ms(MADE_UP["ramps"])

    assert gaps[0] == pytest.approx(80.0, rel=0.05)
    assert min(gaps) == pytest.approx(5.0, rel=0.05)
    assert gaps[-1] == pytest.approx(80.0, rel=0.05)


def test_copies_differ_where_numbers_are_drawn() -> None:
    first, second = [p for p in synthetic(tokens=90, copies=2, seed=1) if p.kind == "bursts"]

    assert [c.tokens for c in first.chunks] != [c.tokens for c in second.chunks]


def test_a_speculating_worker_keeps_its_mean_and_its_rate() -> None:
    chunks = speculative(20_000, Random(1), tokens_per_chunk=2.5)

    assert 20_000 / len(chunks) == pytest.approx(2.5, rel=0.03)
    assert chunks[-1].offset_ns / 1e9 == pytest.approx(20_000 / 50, rel=0.03)


def test_tokens_share_the_characters_of_their_chunk() -> None:
    pattern = Pattern("a", "k", [Chunk(0, "abc", 2), Chunk(5, "d", 3), Chunk(9, "efgh", 1)])

    assert list(pattern.token_ends) == [2, 3, 4, 4, 4, 8]
    assert list(pattern.chunk_of_token) == [0, 0, 1, 1, 1, 2]


def test_a_file_keeps_them_as_they_were(tmp_path: Path) -> None:
    patterns = [
        Pattern("a", "k", [Chunk(7, "naïve 👩‍🔬\n", 3)], prompt=4, run=2),
        *MADE_UP.values(),
    ]

    save_patterns(tmp_path / "new" / "file.jsonl", patterns)

    assert load_patterns(tmp_path / "new" / "file.jsonl") == patterns


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no patterns"),
        (f"{LINE}\n{LINE}\n", "a is there twice"),
        (f"{LINE}\n[]\n", "line 2"),
        (LINE.replace("1]]", "0]]"), "without tokens"),
        (LINE.replace('"x"', '""'), "empty answer or chunk"),
        (LINE.replace('[[1, "x", 1]]', "[]"), "empty answer or chunk"),
        (LINE.replace('"kind": "k", ', ""), "KeyError"),
    ],
    ids=["nothing", "twice", "no-object", "no-tokens", "no-text", "no-chunks", "no-kind"],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(DataError, match=said):
        load_patterns(path)
