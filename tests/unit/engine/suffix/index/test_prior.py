"""The model of a tenant that starts from another prior."""

from typing import Any

import pytest

from engine._core import suffix
from engine.errors import SuffixInputError
from engine.suffix import SuffixIndex
from tests.unit.engine.suffix.conversations import MIB, SONG
from tests.unit.engine.suffix.index.indexes import wrong


def with_value(key: str, value: object) -> dict[str, Any]:
    return {**suffix.prior(), key: value}


def first_survival(index: SuffixIndex, tenant: str) -> float:
    index.start("one", tenant, SONG)
    index.extend("one", SONG[:8])
    survival = index.propose("one", 1).survival[0]
    index.finish("one", keep=False)
    return survival


def test_a_taught_tenant_starts_from_that_prior_and_no_other_one_does() -> None:
    index = SuffixIndex(4 * MIB, salt=1)
    shipped = first_survival(index, "before")

    index.core.teach("acme", with_value("dense", [0.0] * 20) | {"weights": [0.0] * 408})

    assert first_survival(index, "acme") == 0.5
    assert first_survival(index, "globex") == shipped


def test_the_shipped_prior_changes_nothing() -> None:
    index = SuffixIndex(4 * MIB, salt=1)
    index.core.teach("acme", suffix.prior())

    assert first_survival(index, "acme") == first_survival(index, "globex")
    assert index.core.calibration("acme") == index.core.calibration("globex")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("outcomes", 0.0),
        ("outcomes", float("nan")),
        ("dense", [0.0] * 19),
        ("dense", [float("nan")] * 20),
        ("dense", None),
        ("dense_squares", [0.0] * 20),
        ("weights", ["a"] * 408),
        ("squares", [-1.0] * 408),
        ("reliability", [[0.5] * 65] * 7),
        ("reliability", [[1.5] * 65] * 8),
    ],
)
def test_an_impossible_prior_is_refused(key: str, value: object) -> None:
    index = SuffixIndex(4 * MIB, salt=1)

    with pytest.raises(SuffixInputError, match="prior"):
        index.core.teach("acme", wrong(with_value(key, value)))

    assert index.stats().tenants == 0
