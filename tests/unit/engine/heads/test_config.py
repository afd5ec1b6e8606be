import math

import pytest
from pydantic import ValidationError

from engine.heads import HeadConfig


def make(**fields: object) -> HeadConfig:
    return HeadConfig.model_validate(
        {
            "kind": "lstm",
            "hidden_size": 8,
            "vocab_size": 20,
            "inner_size": 6,
            "positions": 3,
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"draft_vocab_size": 21}, "exceeds"),
        ({"deep_sizes": (4,)}, "neither"),
        ({"deep_projection": 1}, "neither"),
        ({"kind": "gated", "deep_sizes": (4,)}, "gated has neither"),
        ({"kind": "mlp", "tie_gates": False}, "one gate"),
        ({"kind": "gated", "tie_gates": False}, "one gate"),
        ({"gated_size": 12}, "lstm has no gated_size"),
        ({"kind": "gated", "gated_size": 0}, "gated_size"),
        ({"window": 8}, "lstm has no window"),
        ({"project_output": True}, "needs share_output"),
        ({"kind": "gated", "window": 8, "window_tokens": True}, "window_tokens needs"),
        (
            {"kind": "gated", "share_output": True, "draft_vocab_size": 5, "window_tokens": True},
            "window_tokens needs",
        ),
        ({"kind": "gru"}, "kind"),
        ({"positions": 0}, "positions"),
        ({"inner_size": "6"}, "inner_size"),
        ({"tokenizer_sha256": "ABC"}, "tokenizer_sha256"),
        ({"surprise": 1}, "surprise"),
        ({"version": 2}, "version"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        make(**fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (4, 6, 6, 20)),
        ({"tie_gates": False}, (4, 6, 24, 20)),
        ({"kind": "mlp", "deep_sizes": (9, 7), "draft_vocab_size": 5}, (1, 9, 9, 5)),
        ({"kind": "gated"}, (1, 6, 6, 20)),
    ],
    ids=["tied gates", "gates apart", "deep", "gated"],
)
def test_sizes_follow(fields: dict[str, object], expected: tuple[int, ...]) -> None:
    config = make(**fields)

    found = (config.gates, config.sum_size, config.embedding_size, config.output_size)
    assert found == expected


@pytest.mark.parametrize(("fields", "expected"), [({}, 12), ({"gated_size": 10}, 10)])
def test_gated_cell_is_twice_as_wide_unless_told(fields: dict[str, object], expected: int) -> None:
    assert make(kind="gated", **fields).gated_width == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"inner_size": 8}, True),
        ({"share_output": True}, True),
        ({"share_output": True, "inner_size": 8}, False),
        ({"share_output": True, "inner_size": 8, "project_output": True}, True),
    ],
    ids=["own rows", "other width", "same width", "told to"],
)
def test_output_layer_is_there_where_it_is_needed(
    fields: dict[str, object], expected: bool
) -> None:
    assert make(**fields).has_output == expected


def test_scale_gives_the_target_half_of_the_last_state() -> None:
    state_weight = 0.5 ** (1 / 6)

    scale = make().embedding_scale

    assert math.isclose((scale * state_weight) ** 2 / 3, 1 - state_weight**2)


def test_config_survives_its_own_json() -> None:
    config = make(draft_vocab_size=4, card={"tokens": 3, "notes": ["a"]})

    assert HeadConfig.model_validate_json(config.model_dump_json()) == config
