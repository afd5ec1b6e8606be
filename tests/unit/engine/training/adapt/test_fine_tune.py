import math
from collections import Counter
from pathlib import Path

import pytest
import torch

from engine.traffic import Seal
from engine.training.adapt.fine_tune import choose_ids, fine_tune, load_base
from engine.training.adapt.traffic import all_segments, read_traffic
from tests.unit.engine.training.adapt.small import TARGET, made, record


def test_a_head_learns_the_traffic_and_its_tokens(tmp_path: Path) -> None:
    adapt = made(tmp_path)
    record(adapt, 40)
    traffic = read_traffic(all_segments(adapt), Seal(), target=TARGET)
    assert traffic is not None
    base = load_base(tmp_path / "serving", adapt)
    before = [parameter.clone() for parameter in base.parameters()]

    tuned = fine_tune(base, traffic, seed=1)

    assert tuned.before == 0.0  # none of the tokens was in its vocabulary
    assert tuned.after > 0.0
    assert tuned.is_better
    assert tuned.head.vocabulary.ids is not None
    assert tuned.head.vocabulary.ids.tolist() == list(range(16, 32))
    for parameter, old in zip(base.parameters(), before, strict=True):
        torch.testing.assert_close(parameter, old)
    for parameter in tuned.head.parameters():  # as they are stored
        torch.testing.assert_close(parameter, parameter.bfloat16().float(), rtol=0, atol=0)


def test_a_share_of_the_first_weights_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapt = made(tmp_path)
    record(adapt, 40)
    traffic = read_traffic(all_segments(adapt), Seal(), target=TARGET)
    assert traffic is not None
    base = load_base(tmp_path / "serving", adapt)

    def distance(kept: float) -> float:
        monkeypatch.setattr("engine.training.adapt.fine_tune._KEPT", kept)
        tuned = fine_tune(base, traffic, seed=1).head
        pairs = zip(tuned.parameters(), base.parameters(), strict=True)
        with torch.no_grad():
            return math.sqrt(sum(float((new - old).square().sum()) for new, old in pairs))

    far = distance(0.0)
    assert far > 0.0
    assert distance(0.4) == pytest.approx(0.6 * far, rel=0.1)  # rounded to bfloat16
    assert distance(1.0) < 0.1 * far


def test_frequent_tokens_take_the_places_of_unused_ones() -> None:
    counts = Counter({3: 5, 40: 9, 41: 2, 42: 1})

    assert choose_ids([1, 3, 5, 7], counts) == [1, 3, 40, 41]
    assert choose_ids([1, 3], counts) == [3, 40]
    assert choose_ids([3], counts) == [3]
    assert choose_ids([1, 2], Counter()) == [1, 2]
