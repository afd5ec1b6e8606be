from pathlib import Path

import pytest

from bench.exact.answers import Answer
from bench.exact.plan import STEP_TOKENS, Pass, Serving
from bench.exact.records import Records
from bench.exact.report import report, table_of
from tests.unit.bench.exact.example import drafted, plain, prompt

REFERENCE = Pass(Serving("bfloat16", "ours", "none"), "none", 1)
HYBRID = Pass(Serving("bfloat16", "ours", "specgate"), "hybrid", 16)
CUT = Pass(Serving("bfloat16", "ours", "specgate", cuts=True), "hybrid", 16)
NGRAM = Pass(Serving("bfloat16", "ours", "ngram"), "ngram", 16)
PLAN = [REFERENCE, HYBRID, CUT, NGRAM]
MISS, HIT = HYBRID.settings
CHAT, CODE, TOOL = prompt(1), prompt(2, "code"), prompt(3, "tool")
PROMPTS = [CHAT, CODE, TOOL]
COUNTS = {"same": 0, "near_tie": 0, "defect": 0, "untested": 0, "refused": 0}


@pytest.fixture
def records(tmp_path: Path) -> Records:
    """With the reference's answers to all prompts."""
    found = Records(tmp_path)
    for one in PROMPTS:
        found.add(REFERENCE, one, [plain(1, 2, 3, margin=0.25)])
    return found


def hit(*ids: int) -> Answer:
    return drafted(*ids, cached=96)


def test_answers_are_counted_by_kind_and_setting(records: Records) -> None:
    records.add(HYBRID, CHAT, [drafted(1, 2, 3), hit(1, 2, 3)])
    records.add(HYBRID, CODE, [drafted(1, 2, 4), hit(1, 2, 3)])
    records.add(HYBRID, TOOL, [drafted(1, 9, 3), hit(1, 2)])

    found = report(PLAN, PROMPTS, records)

    assert found["kinds"]["chat"] == {MISS: {**COUNTS, "same": 1}, HIT: {**COUNTS, "same": 1}}
    assert found["kinds"]["code"] == {MISS: {**COUNTS, "near_tie": 1}, HIT: {**COUNTS, "same": 1}}
    assert found["kinds"]["tool"] == {MISS: {**COUNTS, "defect": 1}, HIT: {**COUNTS, "defect": 1}}
    assert found["kinds"]["emoji"] == {}
    assert found["settings"][MISS] == {
        **COUNTS, "prompts": 3, "same": 1, "near_tie": 1, "defect": 1,
        "same_share": pytest.approx(1 / 3), "drafted": 12, "accepted": 6,
    }  # fmt: skip
    assert found["same_share_bfloat16"] == pytest.approx(3 / 6)
    assert found["same_share_float32"] is None
    assert (found["prompts"], found["defects"]) == (3, 2)
    assert [(one["kind"], one["outcome"], one["place"]) for one in found["differences"]] == [
        ("code", "near_tie", 2), ("tool", "defect", 1), ("tool", "defect", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("by", "answers"),
    [
        (HYBRID, [drafted(1, 2, 3, drafts=0), drafted(1, 2, 3, drafts=0, cached=96)]),
        (HYBRID, [drafted(1, 2, 3, cached=32), drafted(1, 2, 3)]),
        (
            CUT,
            [
                drafted(1, 2, 3, tokens=STEP_TOKENS),
                drafted(1, 2, 3, tokens=STEP_TOKENS, cached=STEP_TOKENS - 1),
            ],
        ),
    ],
    ids=["no drafts", "wrong state of the cache", "not cut"],
)
def test_what_did_not_come_about_as_the_setting_says_is_not_called_exact(
    by: Pass, answers: list[Answer], records: Records
) -> None:
    records.add(by, CHAT, answers)

    found = report(PLAN, PROMPTS, records)

    assert list(found["kinds"]["chat"].values()) == [{**COUNTS, "untested": 1}] * 2
    assert found["same_share_bfloat16"] is None


def test_a_difference_counts_even_without_drafts(records: Records) -> None:
    records.add(HYBRID, CHAT, [drafted(1, 9, 3, drafts=0), hit(1, 2, 3)])

    assert report(PLAN, PROMPTS, records)["defects"] == 1


def test_a_prompt_that_was_refused_shows_nothing(tmp_path: Path) -> None:
    records = Records(tmp_path)
    refused = Answer(refusal="no grammars")
    records.add(REFERENCE, CHAT, [refused])
    records.add(HYBRID, CHAT, [refused, refused])

    found = report(PLAN, PROMPTS, records)

    assert found["kinds"]["chat"][MISS] == {**COUNTS, "refused": 1}


def test_a_request_that_was_refused_once_is_a_defect(records: Records) -> None:
    records.add(HYBRID, CHAT, [Answer(refusal="too long"), hit(1, 2, 3)])

    found = report(PLAN, PROMPTS, records)

    assert found["defects"] == 1
    assert found["differences"][0]["why"] == "refused once: too long"


def test_what_peers_do_is_counted_apart(records: Records) -> None:
    records.add(NGRAM, CHAT, [drafted(1, 9, 3), hit(1, 2, 3)])

    found = report(PLAN, PROMPTS, records)

    assert found["defects"] == 0
    assert found["same_share_bfloat16"] is None
    assert found["peer_defects"] == {"ngram": 1, "arctic_suffix": 0}


def test_both_references_of_a_dtype_are_compared(records: Records) -> None:
    other = Pass(Serving("bfloat16", "vllm", "none"), "none", 1)
    records.add(other, CHAT, [plain(1, 2, 3)])
    records.add(other, CODE, [plain(1, 2, 4)])
    records.add(other, TOOL, [plain(1, 9, 3)])

    found = report([*PLAN, other], PROMPTS, records)

    assert found["kernels"]["bfloat16"] == {"same": 1, "near_tie": 1, "differs": 1}
    assert found["kernels"]["float32"] == {"same": 0, "near_tie": 0, "differs": 0}


def test_passes_without_answers_are_named(records: Records) -> None:
    records.add(HYBRID, CHAT, [drafted(1, 2, 3), hit(1, 2, 3)])

    assert report(PLAN, PROMPTS, records)["left_out"] == [CUT.name, NGRAM.name]


def test_the_tables_have_a_row_for_each_source_and_kind(records: Records) -> None:
    records.add(HYBRID, CODE, [drafted(1, 2, 4), hit(1, 2, 3)])
    records.add(HYBRID, TOOL, [drafted(1, 9, 3), drafted(1, 2, 3)])
    records.add(NGRAM, CODE, [drafted(1, 2, 3), hit(1, 2, 3)])

    lines = table_of(report(PLAN, PROMPTS, records)).splitlines()

    assert lines[:4] == [
        "| | 16 at once, miss | 16 at once, hit |",
        "|---|---|---|",
        "| bfloat16, our kernels, hybrid | 0 of 2, 1 near-ties, 1 defects | 1 of 1 |",
        "| bfloat16, our kernels, ngram | 1 of 1 | 1 of 1 |",
    ]
    assert "24 tokens were drafted, 12 of them accepted. 1 answers are untested" in lines[5]
    assert "| code | 1 of 2, 1 near-ties |  |" in lines
    assert "| emoji |  |  |" in lines
