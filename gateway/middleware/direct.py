"""The short way to the routes that carry the load: past FastAPI's router and exception handling.

Every layer between a route and the server is one more coroutine to step through, down and up, for
each chunk of a stream.
"""

from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send


class DirectRoutes:
    """Hands a POST on one of `routes` to its ASGI app, and everything else on.

    Such an app answers its own errors.
    """

    def __init__(self, app: ASGIApp, *, routes: Mapping[str, ASGIApp]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Choose by path; any other method is the router's to refuse."""
        app = self._app
        if scope["type"] == "http" and scope["method"] == "POST":
            app = self._routes.get(scope["path"], app)
        await app(scope, receive, send)
