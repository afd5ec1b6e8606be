from collections import Counter
from random import Random

from gateway.routing.ring import Ring

KEYS = [Random(at).getrandbits(64) for at in range(2000)]
GROUP = 0x1234_5678_9ABC_DEF0


def ring(workers: int) -> Ring:
    made = Ring()
    for worker in range(workers):
        made.join(worker, f"10.0.0.{worker}:8000")
    return made


def owners(of: Ring, size: int = 64) -> list[int]:
    return [of.owner(GROUP, key, size) for key in KEYS]


def test_replicas_agree_whatever_the_order_in_which_workers_joined() -> None:
    other = Ring()
    for worker in reversed(range(8)):
        other.join(worker, f"10.0.0.{worker}:8000")

    assert owners(ring(8)) == owners(other)


def test_a_worker_that_leaves_moves_only_its_own_keys() -> None:
    before, left = owners(ring(8)), ring(8)
    left.leave(3)
    after = owners(left)

    assert 3 in before
    assert 3 not in after
    assert all(b == a for b, a in zip(before, after, strict=True) if b != 3)


def test_a_group_has_as_many_workers_as_its_size() -> None:
    assert len(set(owners(ring(64), size=1))) == 1
    assert 2 <= len(set(owners(ring(64), size=4))) <= 4
    assert len(set(owners(ring(64), size=64))) > 30


def test_half_of_the_keys_stay_when_a_group_doubles() -> None:
    same = sum(
        a == b for a, b in zip(owners(ring(64), size=8), owners(ring(64), size=16), strict=True)
    )

    assert same >= 0.45 * len(KEYS)


def test_keys_of_many_groups_are_spread() -> None:
    shares = Counter(ring(8).owner(key, 0, 1) for key in KEYS)

    assert max(shares.values()) < 1.6 * len(KEYS) / 8
