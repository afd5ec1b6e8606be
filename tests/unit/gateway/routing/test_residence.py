from gateway.routing.residence import Residence


def residence(*, most_blocks: int = 100, most_tokens: float = 1000) -> Residence:
    made = Residence(most_blocks=most_blocks, most_tokens=most_tokens)
    made.join(0)
    made.join(1)
    return made


def test_a_prompt_is_held_where_it_was_sent() -> None:
    known = residence()
    known.use(0, [1, 2], [10, 10], now=0)
    known.use(1, [1, 3], [10, 10], now=1)

    assert known.where == {1: 0b11, 2: 0b01, 3: 0b10}
    assert known.last_used(0, 2) == 0


def test_the_end_of_the_oldest_prompt_is_evicted_first() -> None:
    known = residence(most_tokens=50)
    known.use(0, [1, 2], [20, 10], now=0)
    known.use(0, [3], [25], now=1)

    assert set(known.where) == {1, 3}


def test_a_bounded_number_of_blocks_is_kept() -> None:
    known = residence(most_blocks=3)
    for block in range(10):
        known.use(0, [block], [1], now=block)

    assert set(known.where) == {7, 8, 9}


def test_use_makes_a_block_young() -> None:
    known = residence(most_tokens=20)
    known.use(0, [1], [10], now=0)
    known.use(0, [2], [10], now=1)
    known.use(0, [1], [10], now=2)
    known.use(0, [3], [10], now=3)

    assert set(known.where) == {1, 3}


def test_a_miss_shows_that_all_older_blocks_are_gone() -> None:
    known = residence()
    for block in range(5):
        known.use(0, [block], [10], now=block)
    known.use(0, [2], [10], now=9)
    known.correct(0, used_before=2)

    assert set(known.where) == {2, 3, 4}


def test_after_misses_a_cache_is_taken_for_smaller_and_after_hits_for_larger() -> None:
    known = residence(most_tokens=100)
    known.correct(0, used_before=0)
    known.use(0, range(10), [10] * 10, now=1)
    after_miss = len(known.where)
    for _ in range(200):
        known.confirm(0)
    known.use(0, range(20), [10] * 20, now=2)

    assert after_miss == 5
    assert len(known.where) == 10


def test_a_worker_that_tells_the_size_of_its_cache_is_believed() -> None:
    known = residence()
    known.resize(0, 30)
    known.use(0, range(10), [10] * 10, now=0)

    assert len(known.where) == 3


def test_a_worker_that_lost_its_cache_or_left_holds_nothing() -> None:
    known = residence()
    for worker in (0, 1):
        known.use(worker, [1, 2], [10, 10], now=0)
    known.clear(0)
    assert known.where == {1: 0b10, 2: 0b10}

    known.leave(1)
    assert known.where == {}
