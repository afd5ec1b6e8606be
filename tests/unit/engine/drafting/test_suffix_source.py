import numpy as np
import pytest

from engine.drafting import Control, SuffixSource
from engine.errors import UnknownRequestError
from engine.suffix import SuffixIndex

PROMPT = np.arange(100, 120, dtype=np.int32)


@pytest.fixture
def source() -> SuffixSource:
    return SuffixSource(SuffixIndex(1 << 22, salt=1))


def write(source: SuffixSource, request: str, tokens: list[int]) -> list[int]:
    """Return what is drafted behind tokens that were generated."""
    return source.advance(request, tokens, 4, 0.0).tokens


def test_a_prediction_is_drafted_from_its_first_token_on(source: SuffixSource) -> None:
    source.begin("r", Control(prediction=(7, 8, 9)), PROMPT)

    assert write(source, "r", [7]) == [8, 9]


def test_what_a_tenant_wrote_is_drafted_for_it_alone(source: SuffixSource) -> None:
    source.begin("first", Control(tenant="a"), PROMPT)
    write(source, "first", [1, 2, 3, 4, 5, 6])
    source.end("first", keep=True)

    for name, tenant in (("same", "a"), ("other", "b")):
        source.begin(name, Control(tenant=tenant), PROMPT + 1000)

    assert write(source, "same", [1, 2, 3]) == [4, 5, 6]
    assert write(source, "other", [1, 2, 3]) == []


def test_what_is_not_kept_is_forgotten(source: SuffixSource) -> None:
    source.begin("first", Control(), PROMPT)
    write(source, "first", [1, 2, 3, 4, 5, 6])
    source.end("first", keep=False)
    source.begin("next", Control(), PROMPT + 1000)

    assert write(source, "next", [1, 2, 3]) == []


def test_a_bad_prediction_leaves_nothing_running(source: SuffixSource) -> None:
    with pytest.raises(ValueError, match="token"):
        source.begin("r", Control(prediction=(-1,)), PROMPT)

    with pytest.raises(UnknownRequestError):
        source.end("r", keep=False)


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_a_draft_ends_at_its_limit(source: SuffixSource, most: int) -> None:
    source.begin("r", Control(prediction=(6, 7, 8, 9)), PROMPT)

    draft = source.advance("r", [6], most, 0.0)

    assert draft.tokens == [7, 8, 9][:most]
    assert draft.predicted == most


def test_a_draft_ends_at_the_floor(source: SuffixSource) -> None:
    for name in ("every", "sure"):
        source.begin(name, Control(prediction=(6, 7, 8, 9)), PROMPT)
    every = source.advance("every", [6], 3, 0.0)

    assert source.advance("sure", [6], 3, every.survival[1]).tokens == [7, 8]


def test_it_goes_on_behind_what_another_drafter_proposes(source: SuffixSource) -> None:
    source.begin("r", Control(prediction=(7, 8, 9, 10)), PROMPT)

    behind = source.go_on("r", [7, 8], 0.5, 1, floor=0.0)

    assert behind.tokens == [9]
    assert behind.survival[0] <= 0.5
