"""One request at one worker, and what the router hears of it."""

from collections.abc import Callable

from gateway.routing import Answered, Route, Router
from gateway.types import Acceptance, Usage
from gateway.upstream.worker import Worker


class Lease:
    """The right to send one request to a worker; made and ended by the pool.

    Attributes:
        worker: The worker.
        route: Why it was chosen; None: by load alone.
        answered: What the worker counted, once the request was answered.
        hand_over: Takes the request from the worker if another one can go on with it; returns
            whether it did. None: the request stays.
    """

    def __init__(self, worker: Worker, route: Route | None, router: Router | None) -> None:
        self.worker = worker
        self.route = route
        self.answered: Answered | None = None
        self.hand_over: Callable[[], bool] | None = None
        self._router = router

    def begin(self, now: float) -> None:
        """The request is about to be sent."""
        if self._router is not None and self.route is not None:
            self._router.begin(self.route, now)

    def first_token(self, now: float) -> None:
        """The first text of a stream came."""
        if self._router is not None and self.route is not None and self.route.first is None:
            self._router.first_token(self.route, now)

    def answer(self, usage: Usage | None, acceptance: Acceptance | None) -> None:
        """The request was answered."""
        if usage is not None:
            accepted = 0 if acceptance is None else acceptance.accepted
            self.answered = Answered(
                usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, accepted
            )

    def end(self, now: float) -> None:
        """The request has ended, one way or another."""
        if self._router is not None and self.route is not None:
            self._router.end(self.route, now, self.answered)
