"""Direct routing for the inference endpoints, without FastAPI's router and exception handling.

Every layer between a route and the server is one more coroutine for each chunk of a stream.
"""

from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send


class DirectRoutes:
    """Sends a POST to one of `routes` to its ASGI app, and everything else to `app`.

    The apps in `routes` answer their own errors.
    """

    def __init__(self, app: ASGIApp, *, routes: Mapping[str, ASGIApp]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Choose by path; the router refuses other methods."""
        app = self._app
        if scope["type"] == "http" and scope["method"] == "POST":
            app = self._routes.get(scope["path"], app)
        await app(scope, receive, send)
