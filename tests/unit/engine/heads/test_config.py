import math

import pytest
from pydantic import ValidationError

from engine.heads import HeadConfig

MEDUSA = {"kind": "medusa", "inner_size": 8, "tie_positions": False, "scale_input": False}


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
        ({"kind": "gated", "deep_sizes": (4,)}, "gated supports neither"),
        ({"kind": "mlp", "tie_gates": False}, "single gate"),
        ({"kind": "gated", "tie_gates": False}, "single gate"),
        ({"gated_size": 12}, "lstm has no gated_size"),
        ({"kind": "gated", "gated_size": 0}, "gated_size"),
        ({"window": 8}, "lstm has no window"),
        ({"project_output": True}, "requires share_output"),
        ({"kind": "gated", "window": 8, "window_tokens": True}, "window_tokens requires"),
        (
            {"kind": "gated", "share_output": True, "draft_vocab_size": 5, "window_tokens": True},
            "window_tokens requires",
        ),
        ({"residual_layers": 2}, "lstm has no residual_layers"),
        ({**MEDUSA, "hidden_size": 9}, "inner_size 8 must equal hidden_size 9"),
        ({**MEDUSA, "tie_positions": True}, "requires tie_positions to be false"),
        (
            {**MEDUSA, "scale_input": True, "share_embedding": True},
            "requires scale_input and share_embedding to be false",
        ),
        ({**MEDUSA, "share_output": True, "project_output": True}, "requires project_output"),
        ({**MEDUSA, "window": 8}, "medusa has no window"),
        ({**MEDUSA, "tie_gates": False}, "single gate"),
        ({**MEDUSA, "deep_projection": 1}, "medusa supports neither"),
        ({"kind": "gru"}, "kind"),
        ({"positions": 0}, "positions"),
        ({"inner_size": "6"}, "inner_size"),
        ({"tokenizer_sha256": "ABC"}, "tokenizer_sha256"),
        ({"surprise": 1}, "surprise"),
        ({"version": 2}, "version"),
    ],
)
def test_invalid_configs_are_rejected(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        make(**fields)


def test_the_scale_gives_the_target_half_of_the_last_state() -> None:
    state_weight = 0.5 ** (1 / 6)

    scale = make().embedding_scale

    assert math.isclose((scale * state_weight) ** 2 / 3, 1 - state_weight**2)
