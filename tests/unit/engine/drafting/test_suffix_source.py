import numpy as np
import pytest

from engine.drafting import Control, SuffixSource
from engine.errors import UnknownRequestError
from engine.suffix import SuffixIndex

PROMPT = np.arange(100, 120, dtype=np.int32)


@pytest.fixture
def source() -> SuffixSource:
    return SuffixSource(SuffixIndex(1 << 22, salt=1))


def drafted(source: SuffixSource, request: str) -> list[int]:
    return source.propose(request, 4, floor=0.0).tokens


def test_a_prediction_is_drafted_from_its_first_token_on(source: SuffixSource) -> None:
    source.begin("r", Control(prediction=(7, 8, 9)), PROMPT)

    assert drafted(source, "r") == [7, 8, 9]


def test_what_a_tenant_wrote_is_drafted_for_it_alone(source: SuffixSource) -> None:
    source.begin("first", Control(tenant="a"), PROMPT)
    source.extend("first", [1, 2, 3, 4, 5, 6])
    source.end("first", keep=True)

    for name, tenant in (("same", "a"), ("other", "b")):
        source.begin(name, Control(tenant=tenant), PROMPT + 1000)
        source.extend(name, [1, 2, 3])

    assert drafted(source, "same") == [4, 5, 6]
    assert drafted(source, "other") == []


def test_what_is_not_kept_is_forgotten(source: SuffixSource) -> None:
    source.begin("first", Control(), PROMPT)
    source.extend("first", [1, 2, 3, 4, 5, 6])
    source.end("first", keep=False)
    source.begin("next", Control(), PROMPT + 1000)
    source.extend("next", [1, 2, 3])

    assert drafted(source, "next") == []


def test_a_bad_prediction_leaves_nothing_running(source: SuffixSource) -> None:
    with pytest.raises(ValueError, match="token"):
        source.begin("r", Control(prediction=(-1,)), PROMPT)

    with pytest.raises(UnknownRequestError):
        source.end("r", keep=False)


def test_a_draft_ends_at_its_limit_and_at_the_floor(source: SuffixSource) -> None:
    source.begin("r", Control(prediction=(7, 8, 9)), PROMPT)

    every = source.propose("r", 3, floor=0.0)

    assert source.propose("r", 2, floor=0.0).tokens == every.tokens[:2] == [7, 8]
    assert source.propose("r", 3, floor=every.survival[1]).tokens == [7, 8]
    assert every.predicted == 3


def test_it_goes_on_behind_what_another_drafter_proposes(source: SuffixSource) -> None:
    source.begin("r", Control(prediction=(7, 8, 9, 10)), PROMPT)

    behind = source.go_on("r", [7, 8], 0.5, 1, floor=0.0)

    assert behind.tokens == [9]
    assert behind.survival[0] <= 0.5
