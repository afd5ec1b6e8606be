from pathlib import Path

import pytest

from engine.errors import HeadFileError
from engine.heads import HeadConfig
from engine.heads.layout import configure, groups, validate

FIELDS = {"kind": "mlp", "hidden_size": 4, "vocab_size": 9, "inner_size": 4}


def test_problems_of_a_config_are_all_named_with_what_was_found() -> None:
    with pytest.raises(HeadFileError, match=r"c.json: .*kind: found 'gru'.*; inner_size: found 0"):
        validate(
            HeadConfig,
            Path("c.json"),
            b'{"kind": "gru", "hidden_size": 4, "vocab_size": 9, "inner_size": 0, "positions": 1}',
        )


def test_published_head_that_cannot_be_is_refused() -> None:
    with pytest.raises(HeadFileError, match=r"c.json: found a head that cannot be: .*one gate"):
        configure(Path("c.json"), **FIELDS, positions=1, tie_gates=False)


@pytest.mark.parametrize(
    ("positions", "tied", "first_apart", "expected"),
    [
        (3, False, False, [[0], [1], [2]]),
        (3, False, True, [[0], [1], [2]]),
        (3, True, False, [[0, 1, 2]]),
        (3, True, True, [[0], [1, 2]]),
        (1, True, True, [[0]]),
    ],
)
def test_positions_share_weights_as_they_are_tied(
    positions: int, tied: bool, first_apart: bool, expected: list[list[int]]
) -> None:
    config = configure(Path("c.json"), **FIELDS, positions=positions, tie_positions=tied)

    assert [list(group) for group in groups(config, first_apart=first_apart)] == expected
