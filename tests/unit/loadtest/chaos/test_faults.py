from collections import Counter

import pytest

from loadtest.chaos.faults import CONNECTION, Kind, draw_faults


def test_a_draw_repeats_with_its_seed_and_only_with_it() -> None:
    assert draw_faults(50, seed=1) == draw_faults(50, seed=1)
    assert draw_faults(50, seed=1) != draw_faults(50, seed=2)


@pytest.mark.parametrize(("count", "service"), [(12, 2), (40, 4), (200, 20)])
def test_a_tenth_of_the_faults_needs_a_new_worker(count: int, service: int) -> None:
    draw = draw_faults(count, seed=0)

    assert len(draw.service) == service
    assert len(draw.connection) + len(draw.service) == count


def test_two_hundred_faults_are_of_every_kind() -> None:
    draw = draw_faults(200, seed=0)

    drawn = Counter(fault.kind for fault in (*draw.connection, *draw.service))
    assert set(drawn) == set(Kind)
    assert all(drawn[kind] == 20 for kind in CONNECTION)


def test_even_the_fewest_kill_a_worker_and_fill_a_disk() -> None:
    kinds = {fault.kind for fault in draw_faults(12, seed=0).service}

    assert kinds == {Kind.KILL_ENGINE_CORE, Kind.FULL_DISK}


def test_answers_are_hit_at_their_very_begin_and_far_inside() -> None:
    passed = [fault.bytes_passed for fault in draw_faults(200, seed=0).connection]

    assert min(passed) == 0
    assert max(passed) > 2_000
