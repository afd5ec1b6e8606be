import asyncio
import json
from typing import Any

import pytest

from loadtest.chaos.seams import Seams
from loadtest.load import Arrival, MadeUpPrompts, Outcome, Server, load_scenario, make_plan
from loadtest.load.answer import Answer, Arrived, Ending, Recording

ARRIVAL: Arrival = make_plan(load_scenario("chat"), MadeUpPrompts(), seed=0)[0]
GREEDY = ARRIVAL.traffic.model_copy(update={"body": {"temperature": 0}})
SERVER = Server("m", counts_tokens=True)


def stream_of(*texts: str) -> list[tuple[int, bytes]]:
    chunks: list[dict[str, Any]] = [{"choices": [{"delta": {"content": text}}]} for text in texts]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    frames = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return [(0, frame) for frame in [*frames, b"data: [DONE]\n\n"]]


def outcome(
    name: str,
    ending: Ending,
    *texts: str,
    error: str | None = None,
    events: int = 1,
    is_greedy: bool = True,
) -> Outcome:
    recording = Recording(0, 0, status=200, is_stream=True, request_id=name)
    recording.packets = stream_of(*texts)
    arrival = Arrival(0, 0.0, 0, GREEDY, ARRIVAL.conversation, ARRIVAL.turns)
    return Outcome(
        arrival if is_greedy else ARRIVAL, 0, Answer(recording, ending, error, events=events)
    )


OUTCOMES = [
    outcome("whole", Ending.DONE),
    outcome("resumed", Ending.DONE),
    outcome("left", Ending.LEFT),
    outcome("lost", Ending.ERROR, error="worker_lost"),
    outcome("tried", Ending.ERROR, error="worker_lost"),
    outcome("resumed and lost", Ending.ERROR, error="timeout"),
    outcome("drained", Ending.ERROR, error="overloaded"),
    outcome("before its text", Ending.ERROR, error="worker_lost", events=0),
]


def test_streams_are_counted_by_what_became_of_them() -> None:
    seams = Seams()

    seams.count(
        OUTCOMES,
        {"resumed", "left", "resumed and lost"},
        {"lost": 1, "tried": 3, "resumed and lost": 2},
        most_tries=3,
        has_other=True,
    )

    assert seams == Seams(killed=5, continued=2, lost=2)


@pytest.mark.parametrize(("has_other", "pauses"), [(True, [1.5]), (False, [])])
def test_the_longest_pause_of_a_stream_counts_if_it_could_go_on_at_once(
    has_other: bool, pauses: list[float]
) -> None:
    seams, resumed = Seams(), outcome("resumed", Ending.DONE)
    for seconds in (0.0, 0.2, 1.7, 1.9):
        resumed.answer.arrivals.append(Arrived(round(seconds * 1e9), 1, 1))

    seams.count([resumed], {"resumed"}, {}, most_tries=3, has_other=has_other)

    assert seams.pauses == pytest.approx(pauses)


class Undisturbed:
    """A client whose server answers everything with the same text."""

    def __init__(self, *texts: str, end: Any = "whole") -> None:
        self.sent: list[Any] = []
        self._texts = texts
        self._end = end

    async def send(self, sending: Any) -> Recording:
        self.sent.append(sending)
        recording = Recording(0, 0, status=200, is_stream=True)
        recording.packets, recording.end = stream_of(*self._texts), self._end
        return recording


@pytest.mark.parametrize(
    ("texts", "counts"),
    [
        (("one ", "two"), (1, 1, 0)),
        (("one one two",), (1, 0, 1)),
        (("one",), (1, 0, 0)),
    ],
    ids=["same", "twice", "shorter"],
)
def test_greedy_streams_are_compared(texts: tuple[str, ...], counts: tuple[int, ...]) -> None:
    seams, client = Seams(), Undisturbed("one two")
    outcomes = [
        outcome("resumed", Ending.DONE, *texts),
        outcome("sampled", Ending.DONE, *texts, is_greedy=False),
        outcome("other", Ending.DONE, *texts),
        outcome("lost", Ending.ERROR, *texts),
    ]

    asyncio.run(seams.compare(outcomes, {"resumed", "sampled", "lost"}, client, SERVER))

    assert (seams.compared, seams.identical, seams.delivered_twice) == counts
    assert len(client.sent) == 1


def test_what_fails_again_is_not_compared() -> None:
    seams = Seams()
    outcomes = [outcome("resumed", Ending.DONE, "a")]

    asyncio.run(seams.compare(outcomes, {"resumed"}, Undisturbed(end="broken"), SERVER))

    assert seams.compared == 0
