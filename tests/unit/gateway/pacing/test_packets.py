import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.pacing import Packetizer

SIZE = 64


def packetizer(*, min_ticks: int = 8) -> Packetizer:
    return Packetizer(
        packet_bytes=SIZE, min_ticks=min_ticks, pad=lambda data, size: data.ljust(size, b"#")
    )


def played(answer: Packetizer, steps: list[bytes], last: bytes) -> list[bytes]:
    """The packets of an answer that puts one of `steps` a tick."""
    packets: list[bytes] = []
    for step in steps:
        answer.put(step)
        packet = answer.next_packet()
        assert not packet.is_last
        packets.append(packet.data)
    answer.end(last)
    while True:
        packet = answer.next_packet()
        packets.append(packet.data)
        if packet.is_last:
            assert packet.sent_bytes == answer.put_bytes
            return packets


EVENTS = st.binary(max_size=200).map(lambda data: data.replace(b"#", b"-"))


@given(st.lists(EVENTS, max_size=40), EVENTS)
@settings(max_examples=200)
def test_all_bytes_are_sent_in_order_in_few_sizes(steps: list[bytes], last: bytes) -> None:
    packets = played(packetizer(), steps, last)

    assert b"".join(packets).replace(b"#", b"") == b"".join(steps) + last
    assert {len(packet) for packet in packets} <= {SIZE << power for power in range(8)}


@given(st.lists(EVENTS.map(lambda data: data[:SIZE]), max_size=60), EVENTS)
@settings(max_examples=200)
def test_answers_of_different_text_look_alike(steps: list[bytes], last: bytes) -> None:
    packets = played(packetizer(), steps, last)

    assert {len(packet) for packet in packets} == {SIZE}
    assert len(packets) in {8, 16, 32, 64, 128}


def test_a_long_last_event_ends_on_time() -> None:
    packets = played(packetizer(), [b"text"], b"e" * 3 * SIZE)

    assert len(packets) == 8
    assert packets[-3:] == [b"e" * SIZE] * 3


def test_the_length_of_long_answers_grows_linearly() -> None:
    packets = played(packetizer(min_ticks=2), [b"x"] * 60, b"end")

    assert len(packets) == 80  # 2, 4, 8, 16, 32, then 24 more each time


def test_packets_grow_if_the_answer_lags() -> None:
    answer = packetizer()
    answer.put(b"x" * 20 * SIZE)

    sizes = [len(answer.next_packet().data) // SIZE for _ in range(6)]
    assert sizes == [4, 2, 2, 2, 2, 1]


@pytest.mark.parametrize("ended", [True, False], ids=["was-ending", "was-running"])
def test_a_hurried_answer_ends_once_everything_is_sent(ended: bool) -> None:
    answer = packetizer()
    answer.put(b"x" * 2 * SIZE)
    answer.next_packet()
    if ended:
        answer.end(b"end")
    answer.hurry()
    if not ended:
        answer.end(b"end")

    assert [answer.next_packet().is_last for _ in range(2)] == [False, True]
