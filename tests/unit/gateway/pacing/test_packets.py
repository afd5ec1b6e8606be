import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.pacing import Packetizer

SIZE = 64


def shape(*, min_ticks: int = 8) -> Packetizer:
    return Packetizer(
        packet_bytes=SIZE, min_ticks=min_ticks, pad=lambda data, size: data.ljust(size, b"#")
    )


def played(shaped: Packetizer, steps: list[bytes], last: bytes) -> list[bytes]:
    """The packets of an answer that puts one of `steps` a tick."""
    packets: list[bytes] = []
    for step in steps:
        shaped.put(step)
        packet = shaped.next_packet()
        assert not packet.is_last
        packets.append(packet.data)
    shaped.end(last)
    while True:
        packet = shaped.next_packet()
        packets.append(packet.data)
        if packet.is_last:
            assert packet.sent_bytes == shaped.put_bytes
            return packets


EVENTS = st.binary(max_size=200).map(lambda data: data.replace(b"#", b"-"))


@given(st.lists(EVENTS, max_size=40), EVENTS)
@settings(max_examples=200)
def test_all_bytes_leave_in_order_in_packets_of_few_sizes(steps: list[bytes], last: bytes) -> None:
    packets = played(shape(), steps, last)

    assert b"".join(packets).replace(b"#", b"") == b"".join(steps) + last
    assert {len(packet) for packet in packets} <= {SIZE << power for power in range(8)}


@given(st.lists(EVENTS.map(lambda data: data[:SIZE]), max_size=60), EVENTS)
@settings(max_examples=200)
def test_an_answer_that_keeps_within_its_packets_looks_like_any_other(
    steps: list[bytes], last: bytes
) -> None:
    packets = played(shape(), steps, last)

    assert {len(packet) for packet in packets} == {SIZE}
    assert len(packets) in {8, 16, 32, 64, 128}


def test_the_last_event_comes_with_the_last_packet() -> None:
    packets = played(shape(), [b"text"], b"end")

    assert packets[-1].startswith(b"end")
    assert packets[1:-1] == [b"#" * SIZE] * 6


def test_a_long_last_event_is_begun_in_time() -> None:
    packets = played(shape(), [b"text"], b"e" * 3 * SIZE)

    assert len(packets) == 8
    assert packets[-3:] == [b"e" * SIZE] * 3


def test_long_answers_do_not_double_for_ever() -> None:
    packets = played(shape(min_ticks=2), [b"x"] * 60, b"end")

    assert len(packets) == 80  # 2, 4, 8, 16, 32, then 24 more each time


def test_an_answer_that_lags_behind_gets_larger_packets() -> None:
    shaped = shape()
    shaped.put(b"x" * 20 * SIZE)

    assert [len(shaped.next_packet().data) for _ in range(6)] == [
        4 * SIZE,
        2 * SIZE,
        2 * SIZE,
        2 * SIZE,
        2 * SIZE,
        SIZE,
    ]


@pytest.mark.parametrize("ended", [True, False], ids=["was-ending", "was-running"])
def test_in_a_hurry_an_answer_ends_when_all_has_left(ended: bool) -> None:
    shaped = shape()
    shaped.put(b"x" * 2 * SIZE)
    shaped.next_packet()
    if ended:
        shaped.end(b"end")
    shaped.hurry()
    if not ended:
        shaped.end(b"end")

    assert [shaped.next_packet().is_last for _ in range(2)] == [False, True]


@pytest.mark.parametrize("put", [b"", b"abc"])
def test_every_packet_says_how_much_has_left(put: bytes) -> None:
    shaped = shape()
    shaped.put(put)

    assert shaped.next_packet().sent_bytes == len(put)
    assert shaped.queued_bytes == 0
