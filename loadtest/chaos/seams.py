"""Whether streams that went on with another worker are those of an undisturbed run."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from loadtest.load import (
    Ending,
    Outcome,
    Recording,
    Sending,
    Server,
    make_sending,
    read_answer,
    text_of,
)

_LOST = frozenset({"worker_lost", "no_healthy_worker", "timeout", "bad_gateway"})
_MOST_COMPARED = 60


class Sends(Protocol):
    """What is needed of `loadtest.load.Client`."""

    async def send(self, sending: Sending) -> Recording:
        """Send a request and take the answer to its end."""


@dataclass(slots=True)
class Seams:
    """Counts of the streams of a run whose worker was lost after their first event.

    Attributes:
        killed: All of them.
        continued: Those that went on with another worker, and did not end in an error.
        lost: Those that ended in an error, though the settings allowed one more try.
        compared: Greedy ones that went on, and were asked again with nothing else running.
        identical: Of these, with the same text.
        delivered_twice: Of these, with a text that is longer.
        pauses: Longest time between two pieces of text, of each that went on where another worker
            was up; in seconds.
    """

    killed: int = 0
    continued: int = 0
    lost: int = 0
    compared: int = 0
    identical: int = 0
    delivered_twice: int = 0
    pauses: list[float] = field(default_factory=list)

    def count(
        self,
        outcomes: Sequence[Outcome],
        resumed: Collection[str],
        tries: dict[str, int],
        *,
        most_tries: int,
        has_other: bool,
    ) -> None:
        """Count the streams of a run.

        Args:
            outcomes: Of its requests.
            resumed: Ids of those that the gateway resumed.
            tries: How often each was sent to a worker.
            most_tries: How often it may be.
            has_other: Whether another worker was up when one was lost.
        """
        for outcome in outcomes:
            answer = outcome.answer
            name = answer.recording.request_id
            has_failed = answer.ending is Ending.ERROR and answer.error in _LOST
            if not answer.recording.is_stream or not answer.events:
                continue
            self.killed += name in resumed or has_failed
            if name in resumed and answer.ending in (Ending.DONE, Ending.LEFT):
                self.continued += 1
                if has_other and len(answer.arrivals) > 1:
                    times = [arrived.at_ns for arrived in answer.arrivals]
                    self.pauses.append(max(b - a for a, b in pairwise(times)) / 1e9)
            self.lost += has_failed and tries.get(name, 0) < most_tries

    async def compare(
        self,
        outcomes: Sequence[Outcome],
        resumed: Collection[str],
        client: Sends,
        server: Server,
    ) -> None:
        """Ask again what was resumed and is greedy, one after the other."""
        found = [
            outcome
            for outcome in outcomes
            if outcome.answer.recording.request_id in resumed
            and outcome.answer.ending is Ending.DONE
            and outcome.arrival.traffic.body.get("temperature") == 0
        ]
        for outcome in found[:_MOST_COMPARED]:
            arrival, number = outcome.arrival, outcome.turn
            messages = list(arrival.conversation.prompts())[number]
            again = make_sending(
                arrival.traffic,
                arrival.turns[number],
                messages,
                server,
                due_ns=time.monotonic_ns(),
            )
            undisturbed = read_answer(await client.send(again))
            if undisturbed.ending is not Ending.DONE:
                continue
            first, second = text_of(outcome.answer.recording), text_of(undisturbed.recording)
            self.compared += 1
            self.identical += first == second
            self.delivered_twice += first != second and len(first) > len(second)
