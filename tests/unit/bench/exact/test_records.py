from pathlib import Path

from bench.exact.plan import Pass, Serving
from bench.exact.records import Records, key_of
from tests.unit.bench.exact.example import drafted, plain, prompt

PASS = Pass(Serving("bfloat16", "ours", "specgate"), "hybrid", 16)
REFERENCE = Pass(Serving("bfloat16", "ours", "none"), "none", 1)
FIRST, SECOND = prompt(1), prompt(2)


def test_answers_are_found_again_by_pass_and_prompt(tmp_path: Path) -> None:
    Records(tmp_path).add(PASS, FIRST, [drafted(1, 2), drafted(1, 2, cached=32)])
    Records(tmp_path).add(REFERENCE, FIRST, [plain(1, 2)])

    found = Records(tmp_path)

    assert found.load(PASS) == {key_of(FIRST): [drafted(1, 2), drafted(1, 2, cached=32)]}
    assert found.load(REFERENCE) == {key_of(FIRST): [plain(1, 2)]}


def test_prompts_without_answers_are_missing(tmp_path: Path) -> None:
    records = Records(tmp_path / "new")
    records.add(PASS, FIRST, [drafted(1), drafted(1)])

    assert records.missing(PASS, [FIRST, SECOND]) == [SECOND]
    assert records.missing(REFERENCE, [FIRST, SECOND]) == [FIRST, SECOND]


def test_a_prompt_is_known_by_what_is_asked_not_by_its_number() -> None:
    assert key_of(prompt(1)) != key_of(prompt(1, max_tokens=9)) != key_of(prompt(2))
    assert key_of(FIRST) == key_of(type(FIRST)(99, "code", FIRST.body))


def test_a_line_that_was_cut_is_dropped(tmp_path: Path) -> None:
    records = Records(tmp_path)
    for asked in (FIRST, SECOND):
        records.add(PASS, asked, [drafted(1)])
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-20])

    assert list(records.load(PASS)) == [key_of(FIRST)]
    records.mend(PASS)
    records.add(PASS, SECOND, [drafted(3)])

    assert records.load(PASS)[key_of(SECOND)] == [drafted(3)]
    assert len(path.read_text("utf-8").splitlines()) == 2
