import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.speculation_metrics import SpeculationReport, read_report, with_sources
from gateway.types import Acceptance, SourceCount
from tests.fakes.coded_steps import Part, coded_step, plain_tokens

FOUND = {"num_spec_steps": 4, "num_draft_tokens": 10, "num_accepted_draft_tokens": 6}
NATIVE = Acceptance(4, 2.5, {"native": SourceCount(10, 6)})
SOURCES: tuple[Part, ...] = ("suffix", "head", "native", "prediction")


def answer(found: object) -> dict[str, Any]:
    return {"metrics": {"speculative_decoding": found}}


def text(found: object) -> bytes:
    return json.dumps(answer(found), separators=(",", ":")).encode()


def of_steps(drafted: list[int], accepted: list[int]) -> dict[str, Any]:
    """What a worker reports about such steps."""
    return {
        "num_spec_steps": len(drafted),
        "num_draft_tokens": plain_tokens(drafted),
        "num_accepted_draft_tokens": sum(accepted),
        "per_step_accepted": accepted,
        "per_step_drafted": drafted,
    }


def report_of(found: object) -> SpeculationReport:
    report = read_report(answer(found)["metrics"])
    assert report is not None
    return report


@st.composite
def drafts(draw: st.DrawFn) -> tuple[int, int, list[Part]]:
    """A coded step, how much of it was accepted, and the source of each of its tokens."""
    planned = draw(st.integers(0, 40))
    border = draw(st.integers(0, planned))
    first, second = draw(st.sampled_from(SOURCES)), draw(st.none() | st.sampled_from(SOURCES))
    drafted = draw(st.integers(0, planned))
    if second is None:
        tokens, step = [first] * drafted, coded_step(drafted, first)
    else:
        tokens = ([first] * border + [second] * (planned - border))[:drafted]
        step = coded_step(drafted, first, second, border=border)
    return step, draw(st.integers(0, drafted)), tokens


@given(st.lists(drafts(), max_size=30))
def test_counts_equal_a_count_token_by_token(steps: list[tuple[int, int, list[Part]]]) -> None:
    drafted: Counter[Part] = Counter()
    accepted: Counter[Part] = Counter()
    for _, taken, tokens in steps:
        drafted.update(tokens)
        accepted.update(tokens[:taken])

    report = report_of(of_steps([s for s, _, _ in steps], [taken for _, taken, _ in steps]))

    found = report.acceptance.sources
    assert {name for name, count in found.items() if count.drafted == 0} == set()
    suffix = SourceCount(
        drafted["suffix"] + drafted["prediction"], accepted["suffix"] + accepted["prediction"]
    )
    assert found.get("suffix", SourceCount(0, 0)) == suffix
    for name in ("head", "native"):
        assert found.get(name, SourceCount(0, 0)) == SourceCount(drafted[name], accepted[name])
    assert report.acceptance.predicted == accepted["prediction"]


@pytest.mark.parametrize(
    "found",
    [
        {**of_steps([], []), "per_step_drafted": None, "per_step_accepted": None},
        of_steps([], []),
        of_steps([0, coded_step(0, "suffix")], [0, 0]),
    ],
    ids=["no-steps", "empty-steps", "empty-drafts"],
)
def test_without_drafts_no_source_is_named(found: dict[str, Any]) -> None:
    report = report_of(found)

    completed = json.loads(with_sources(text(found), report))["metrics"]["speculative_decoding"]
    assert report.acceptance.sources == {}
    assert report.acceptance.predicted == 0
    assert completed["sources"] == {}


CODED = coded_step(4, "suffix")


@pytest.mark.parametrize(
    ("drafted", "accepted"),
    [
        (None, None),
        ([CODED] * 4, None),
        (None, [1] * 4),
        ({"0": CODED}, {"0": 1}),
        ([CODED] * 4, [1] * 3),
        ([CODED] * 3, [1] * 3),
        ([CODED] * 3 + [-1], [1] * 4),
        ([CODED] * 4, [1, 1, 1, -1]),
        ([CODED] * 4, [1, 1, 1, 5]),
        ([CODED] * 3 + [1 << 40], [1, 1, 1, 0]),
        ([CODED] * 3 + [4 | 5 << 16], [1] * 4),
        ([CODED] * 3 + [4 | 1 << 16 | 15 << 20], [1] * 4),
        ([CODED] * 3 + [4.0], [1] * 4),
        ([CODED] * 3 + [True], [1] * 4),
        ([CODED] * 4, [1, 1, 1, None]),
    ],
    ids=range(15),
)
def test_totals_are_used_if_the_steps_are_invalid(drafted: object, accepted: object) -> None:
    found = {**FOUND, "per_step_drafted": drafted, "per_step_accepted": accepted}

    assert report_of(found) == SpeculationReport(NATIVE)


@pytest.mark.parametrize(
    "broken",
    [
        None,
        {},
        [],
        *(
            {"speculative_decoding": found}
            for found in (
                None,
                {},
                {**FOUND, "num_spec_steps": "4"},
                {**FOUND, "num_spec_steps": True},
                {**FOUND, "num_draft_tokens": None},
                {**FOUND, "num_draft_tokens": -1},
                {**FOUND, "num_draft_tokens": 10**400},
                {**FOUND, "num_accepted_draft_tokens": 11},
            )
        ),
    ],
    ids=str,
)
def test_without_counts_there_is_no_report(broken: object) -> None:
    assert read_report(broken) is None


def test_codes_are_cleared_and_no_other_byte_changes() -> None:
    steps = [coded_step(8, "head", "suffix", border=3), 3, coded_step(0, "suffix")]
    found = of_steps(steps, [4, 3, 0])
    before = b'{"x": 1.0,' + text({**found, "more": [1.50]})[1:] + b"\n"

    after = with_sources(before, report_of(found))

    sources = (
        b',"sources":{"native":{"drafted":3,"accepted":3},"suffix":{"drafted":5,"accepted":1},'
        b'"head":{"drafted":3,"accepted":3}}'
    )
    coded = f'"per_step_drafted":{steps}'.replace(" ", "").encode()
    assert after.replace(sources, b"") == before.replace(coded, b'"per_step_drafted":[8,3,0]')


@pytest.mark.parametrize("found", [{}, None, {"a": {}}], ids=repr)
def test_an_unknown_object_is_not_changed(found: object) -> None:
    assert with_sources(text(found), SpeculationReport(NATIVE)) == text(found)


def test_generated_text_with_our_key_changes_nothing() -> None:
    words = {"content": '"speculative_decoding":{"a":1,"per_step_drafted":[65540]}'}
    found = of_steps([CODED], [1])
    before = json.dumps({**words, **answer(found)}, separators=(",", ":")).encode()

    completed = json.loads(with_sources(before, report_of(found)))

    assert completed["content"] == words["content"]
    assert completed["metrics"]["speculative_decoding"]["per_step_drafted"] == [4]
    assert "sources" in completed["metrics"]["speculative_decoding"]
