import numpy as np
import pytest

from engine.drafting import Control, SuffixSource
from engine.errors import SuffixCapacityError, UnknownRequestError
from tests.unit.engine.drafting.scripted import suffix

PROMPT = np.arange(100, 120, dtype=np.int32)


def drafted(source: SuffixSource, request: str, tokens: list[int]) -> list[int]:
    """What is drafted after these tokens were generated."""
    source.index.extend(request, tokens)
    return source.index.propose(request, 4).tokens


def test_a_prediction_is_drafted_from_its_first_token() -> None:
    source = suffix()
    source.begin("r", Control(prediction=(7, 8, 9)), PROMPT)

    assert drafted(source, "r", [7]) == [8, 9]


@pytest.mark.parametrize(
    ("keep", "tenant", "expected"), [(True, "a", [4, 5, 6]), (True, "b", []), (False, "a", [])]
)
def test_a_kept_answer_is_drafted_for_its_tenant_alone(
    keep: bool, tenant: str, expected: list[int]
) -> None:
    source = suffix()
    source.begin("first", Control(tenant="a"), PROMPT)
    drafted(source, "first", [1, 2, 3, 4, 5, 6])
    source.end("first", keep=keep)
    source.begin("next", Control(tenant=tenant), PROMPT + 1000)

    assert drafted(source, "next", [1, 2, 3]) == expected


def test_a_prediction_that_is_refused_leaves_nothing_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = suffix()

    def refuse(request: str, tokens: object) -> None:
        raise SuffixCapacityError("full")

    monkeypatch.setattr(source.index, "predict", refuse)
    with pytest.raises(SuffixCapacityError):
        source.begin("r", Control(prediction=(7,)), PROMPT)

    with pytest.raises(UnknownRequestError):
        source.end("r", keep=False)
