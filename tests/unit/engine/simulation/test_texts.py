from dataclasses import replace

import numpy as np
import pytest

from engine.simulation.texts import DEPTH, HEAD, build_library, runs_of
from tests.unit.bench.gate_sim.worlds import HOPELESS, SURE


def test_runs_end_at_the_first_miss() -> None:
    hits = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1]])

    assert runs_of(hits).tolist() == [2, 0, 4]


def test_a_library_maps_seed_and_phase_to_positions() -> None:
    by_seed = [[kind.write_texts(8, seed) for kind in (SURE, HOPELESS)] for seed in range(2)]

    library = build_library(by_seed)

    for seed, phases in enumerate(by_seed):
        for phase, texts in enumerate(phases):
            begin = library.base[seed, phase]
            end = begin + texts.lengths.sum()
            assert np.array_equal(library.texts.truth.head[begin:end], texts.truth.head)
            assert np.array_equal(
                library.texts.lengths[library.first[seed] :][: library.count], texts.lengths
            )


def test_expected_tokens_are_survivals_added_up() -> None:
    texts = SURE.write_texts(4, 0)

    library = build_library([[texts]])

    assert library.suffix_sum.shape == (texts.lengths.sum(), DEPTH + 1)
    assert library.head_sum[0, 0] == 0.0
    assert library.head_sum[3, HEAD] == pytest.approx(texts.truth.head[3].sum())


def test_phases_of_different_lengths_are_refused() -> None:
    longer = replace(SURE, answer_tokens=90.0)

    with pytest.raises(ValueError, match="equal lengths"):
        build_library([[SURE.write_texts(4, 0), longer.write_texts(4, 0)]])


def test_seeds_with_different_numbers_of_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="as many texts"):
        build_library([[SURE.write_texts(4, 0)], [SURE.write_texts(5, 1)]])
