"""What the router knows of one worker's state."""

from dataclasses import dataclass

from gateway.routing.speed import Speed
from gateway.types import WorkerId


@dataclass(slots=True, eq=False)
class Place:
    """One worker.

    Attributes:
        running: Requests of ours there.
        others: Requests of other gateways, by its last report.
        unread_tokens: Prompt tokens that requests of ours have to have read before their first.
        up: Whether it takes requests.
        tells: Whether it tells what it found in its cache.
    """

    name: WorkerId
    speed: Speed
    running: int = 0
    others: int = 0
    unread_tokens: float = 0.0
    up: bool = False
    tells: bool = False

    @property
    def crowd(self) -> int:
        """Requests there."""
        return self.running + self.others
