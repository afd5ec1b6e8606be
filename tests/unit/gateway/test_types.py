import pytest

from gateway.types import Acceptance, RequestId, RequestRecord, SourceCount


@pytest.mark.parametrize(
    ("count", "ratio"),
    [(SourceCount(10, 6), 0.6), (SourceCount(10, 0), 0.0), (SourceCount(0, 0), None)],
    ids=["some", "none-accepted", "none-drafted"],
)
def test_a_ratio_exists_only_where_something_was_drafted(
    count: SourceCount, ratio: float | None
) -> None:
    assert count.ratio == ratio


def test_acceptance_adds_up_its_sources() -> None:
    sources = {"suffix": SourceCount(10, 6), "head": SourceCount(4, 1)}

    found = Acceptance(steps=5, length=2.4, sources=sources)

    assert (found.drafted, found.accepted) == (14, 7)


def test_a_failure_is_noted_whole() -> None:
    record = RequestRecord(RequestId("r"), "/x", "POST", 0.0)

    record.note_failure(429, "rejected", "rate_limit_exceeded", "rate_limit")

    assert (record.status, record.outcome) == (429, "rejected")
    assert (record.error_code, record.reason) == ("rate_limit_exceeded", "rate_limit")
