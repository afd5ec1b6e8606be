"""The picture is of one stream, the same in every mode."""

from bench.client import Exchange
from bench.pacing.bench import shown_streams
from bench.pacing.dialect import Arrival
from bench.pacing.figures import Played, played
from bench.pacing.patterns import Chunk, Pattern
from bench.pacing.plan import MODES, Mode
from bench.pacing.round import Playback

MS = 1_000_000


def stream(name: str, *at_ms: int, kind: str = "chat-8") -> Played:
    sent_ns = [at * MS for at in at_ms]
    pattern = Pattern(name, kind, [Chunk(at_ns, "x", 1) for at_ns in sent_ns])
    arrivals = [Arrival(at_ns + MS, "x", None) for at_ns in sent_ns]
    return played(pattern, [*sent_ns, sent_ns[-1]], arrivals, (sent_ns[-1] + MS, 100))


def a_round() -> dict[Mode, Playback]:
    captures = [Exchange(number) for number in range(3)]
    return {
        mode: Playback(
            [
                stream("even", 0, 20, 40, 60),
                stream("made-up", 0, 5, 90, 95, kind="bursts"),
                stream("uneven", 0, 5, 90, 95),
            ],
            captures,
            [],
            None,
        )
        for mode in MODES
    }


def test_the_stream_that_stutters_most_is_shown_in_each_mode() -> None:
    shown = shown_streams(a_round())

    assert list(shown) == ["raw", "smooth", "private"]
    assert {played.pattern.name for played, _ in shown.values()} == {"uneven"}
    assert {capture.sent_ns for _, capture in shown.values()} == {2}


def test_made_up_streams_are_not_shown() -> None:
    only_made_up = {
        mode: Playback(playback.played[1:2], playback.captures[1:2], [], None)
        for mode, playback in a_round().items()
    }

    assert shown_streams(only_made_up) == {}
