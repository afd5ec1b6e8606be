import pytest

from engine.drafting.origin import HEAD, PREDICTION, SUFFIX, Origin

MIXED = Origin(PREDICTION, SUFFIX, 3)


@pytest.mark.parametrize(
    ("origin", "drafted", "code"),
    [
        (Origin(SUFFIX), 5, 0x1_0005),
        (Origin(HEAD), 0, 0x2_0000),
        (MIXED, 8, 0x3_14_0008),
        (Origin(HEAD, SUFFIX, 200), 250, 200 << 24 | 0x12_0000 | 250),
    ],
)
def test_the_number_on_the_wire(origin: Origin, drafted: int, code: int) -> None:
    assert origin.encode(drafted) == code
    assert Origin.decode(code) == (origin, drafted)


@pytest.mark.parametrize(
    ("origin", "count", "parts"),
    [
        (Origin(SUFFIX), 0, []),
        (Origin(SUFFIX), 4, [(SUFFIX, 0, 4)]),
        (MIXED, 0, []),
        (MIXED, 2, [(PREDICTION, 0, 2)]),
        (MIXED, 3, [(PREDICTION, 0, 3)]),
        (MIXED, 8, [(PREDICTION, 0, 3), (SUFFIX, 3, 5)]),
    ],
)
def test_the_first_tokens_are_of_the_first_source(
    origin: Origin, count: int, parts: list[tuple[int, int, int]]
) -> None:
    assert list(origin.split(count)) == parts
