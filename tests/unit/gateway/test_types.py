import pytest

from gateway.types import Acceptance, SourceCount


@pytest.mark.parametrize(
    ("count", "ratio"),
    [(SourceCount(10, 6), 0.6), (SourceCount(10, 0), 0.0), (SourceCount(0, 0), None)],
    ids=["some", "none-accepted", "none-drafted"],
)
def test_without_drafts_there_is_no_ratio(count: SourceCount, ratio: float | None) -> None:
    assert count.ratio == ratio


def test_acceptance_adds_up_its_sources() -> None:
    sources = {"suffix": SourceCount(10, 6), "head": SourceCount(4, 1)}

    found = Acceptance(steps=5, length=2.4, sources=sources)

    assert (found.drafted, found.accepted) == (14, 7)
