import pytest

from engine.worker.next_step import NextStep, prefill_of_step, room_in_cache, room_in_step


@pytest.mark.parametrize(
    ("free", "sequences", "room"),
    [(12, 4, None), (11, 4, 112), (4, 4, 0), (3, 4, 0), (0, 0, None)],
)
def test_room_in_the_cache(free: int, sequences: int, room: int | None) -> None:
    """Drafts of 32 tokens in blocks of 16: each sequence may need three blocks."""
    assert room_in_cache(free, 16, sequences=sequences, most=32) == room


@pytest.mark.parametrize(
    ("sequences", "prefill", "room"),
    [
        (128, 0, 1920),
        (62, 0, None),
        (63, 0, 1985),
        (8, 2040, 0),
        (8, 1784, None),
        (8, 1785, 255),
        (0, 2048, None),
    ],
)
def test_room_in_a_step_of_2048_tokens(sequences: int, prefill: int, room: int | None) -> None:
    found = room_in_step(2048, sequences=sequences, prefill_tokens=prefill, most=32)

    assert found == room


@pytest.mark.parametrize(
    ("unread", "longest", "in_pieces", "read"),
    [
        ([], 1000, True, 0),
        ([300, 400], 1000, True, 700),
        ([300, 9000, 5], 1000, True, 1000),
        ([300, 9000, 5], 256, True, 517),
        ([300, 800, 5], 1000, False, 300),
        ([800, 200, 1], 1000, False, 1000),
    ],
    ids=["none", "all fit", "cut", "in pieces of 256", "one waits", "full"],
)
def test_prompt_tokens_of_a_step(
    unread: list[int], longest: int, in_pieces: bool, read: int
) -> None:
    found = prefill_of_step(unread, room_tokens=1000, longest_piece=longest, in_pieces=in_pieces)

    assert found == read


def test_the_drafter_is_told_all_of_it() -> None:
    load = NextStep(1, 2, 3, 4, 5).as_load()

    assert (load.prefill_tokens, load.context_tokens, load.waiting) == (1, 2, 3)
    assert (load.room_tokens, load.read_tokens) == (4, 5)
