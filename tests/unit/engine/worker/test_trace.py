"""The trace of one request, step by step."""

from collections.abc import Sequence

import msgspec
import pytest

from engine.drafting import Origin
from engine.drafting.origin import HEAD, NATIVE, PREDICTION, SUFFIX
from engine.worker.trace import TokenTrace, add_accepted, is_asked, take_accepted


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (None, False),
        ({}, False),
        ({"specgate_trace": 1}, True),
        ({"specgate_trace": 1.0}, True),
        ({"specgate_trace": 0}, False),
        ({"specgate_trace": "1"}, False),
        ({"specgate_trace": [1]}, False),
    ],
    ids=str,
)
def test_a_request_asks_with_one(arguments: dict[str, object] | None, asked: bool) -> None:
    assert is_asked(arguments) is asked


@pytest.mark.parametrize(
    ("origin", "accepted", "sources"),
    [
        (Origin(SUFFIX), 2, ["suffix", "suffix"]),
        (Origin(NATIVE), 1, ["native"]),
        (Origin(HEAD, PREDICTION, 2), 3, ["head", "head", "prediction"]),
        (Origin(HEAD, PREDICTION, 2), 1, ["head"]),
        (Origin(HEAD), 0, []),
    ],
    ids=str,
)
def test_accepted_drafts_reach_the_server_with_their_sources(
    origin: Origin, accepted: int, sources: list[str]
) -> None:
    sent = msgspec.msgpack.encode(add_accepted(None, origin, accepted))

    assert take_accepted(msgspec.msgpack.decode(sent)) == (sources, None)


def test_parameters_of_a_kv_transfer_stay_as_they_are() -> None:
    theirs = {"do_remote_prefill": True}

    sent = add_accepted(theirs, Origin(SUFFIX), 1)

    assert take_accepted(sent) == (["suffix"], theirs)
    assert take_accepted(theirs) == ([], theirs)
    assert take_accepted(None) == ([], None)


def traced(*steps: tuple[Sequence[str], Sequence[str]]) -> TokenTrace:
    """A trace of steps: the text of each decoded token, and the sources of the accepted ones."""
    trace = TokenTrace()
    for texts, accepted in steps:
        decode = trace.watch(texts.__getitem__)
        assert [decode(at) for at in range(len(texts))] == list(texts)
        trace.add(len(texts), accepted)
    return trace


def test_the_token_behind_an_accepted_draft_is_the_targets() -> None:
    trace = traced((["Once"], []), ([" upon", "", " ä🙂"], ["suffix", "head"]), ([" x"], []))

    assert trace.take() == [("target", 4), ("suffix", 5), ("head", 0), ("target", 3), ("target", 2)]
    assert trace.take() == []


def test_a_token_that_is_not_decoded_has_no_text() -> None:
    trace = TokenTrace()
    decode = trace.watch(lambda _: "abc")
    decode(1)

    trace.add(2, ["suffix"])

    assert trace.take() == [("suffix", 3), ("target", 0)]


def test_decoded_tokens_behind_a_stop_string_are_not_in_the_answer() -> None:
    trace = TokenTrace()
    decode = trace.watch(lambda _: "abc")
    for token in range(3):
        decode(token)

    trace.add(1, ["suffix", "suffix"])
    decode(3)
    trace.add(1, [])

    assert trace.take() == [("suffix", 3), ("target", 3)]


@pytest.mark.parametrize(
    ("length", "lengths"),
    [(7, [3, 2, 2]), (6, [3, 2, 1]), (4, [3, 1, 0]), (3, [3, 0, 0]), (0, [0, 0, 0])],
)
def test_a_cut_text_shortens_the_last_entries(length: int, lengths: list[int]) -> None:
    trace = traced((["abc"], []), (["de", "fg"], ["suffix"]))

    trace.cut(length)

    assert [length for _, length in trace.take()] == lengths


def test_entries_that_were_taken_stay_as_they_are() -> None:
    trace = traced((["abc"], []))
    taken = trace.take()
    trace.watch(lambda _: "de")(0)
    trace.add(1, [])

    trace.cut(1)

    assert taken == [("target", 3)]
    assert trace.take() == [("target", 0)]
