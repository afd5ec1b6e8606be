"""Refuse a request body over the limit, by its content length or while it is received."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.errors import BodyTooLargeError


class BodyLimit:
    """Counts the body bytes that an app receives; raises `BodyTooLargeError` over the limit."""

    def __init__(self, app: ASGIApp, *, most_bytes: int) -> None:
        self._app = app
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app with a `receive` that counts."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = next((v for k, v in scope["headers"] if k == b"content-length"), b"0")
        received = 0

        async def counted() -> Message:
            nonlocal received
            if received == 0 and announced.isdigit() and int(announced) > self._most_bytes:
                raise self._too_large()
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._most_bytes:
                raise self._too_large()
            return message

        await self._app(scope, counted, send)

    def _too_large(self) -> BodyTooLargeError:
        return BodyTooLargeError(f"The request body is larger than {self._most_bytes} bytes.")
