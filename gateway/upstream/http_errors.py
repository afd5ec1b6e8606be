"""The border where the HTTP client's exceptions become ours; none of them passes it."""

from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from gateway.errors import UpstreamError, WorkerLostError, WorkerTimeoutError

CLIENT_ERRORS = (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError)
"""Whatever aiohttp, or the socket below it, raises."""

_LOST = "The connection to the engine was lost."


@contextmanager
def mapped_errors() -> Iterator[None]:
    """Turn one of `CLIENT_ERRORS` into an `UpstreamError`."""
    try:
        yield
    except CLIENT_ERRORS as error:
        raise upstream_error(error) from error


def upstream_error(error: Exception) -> UpstreamError:
    """What one of `CLIENT_ERRORS` is called here.

    `WorkerLostError.sent` is False only where the connection was never made.
    """
    match error:
        case aiohttp.ConnectionTimeoutError():
            return WorkerLostError("The engine could not be reached in time.", sent=False)
        case aiohttp.ClientConnectorError():
            return WorkerLostError("The engine could not be reached.", sent=False)
        case aiohttp.ServerTimeoutError() | TimeoutError():
            return WorkerTimeoutError("The engine stayed silent for too long.")
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError() | OSError():
            return WorkerLostError(_LOST, sent=True)
        case _:
            return UpstreamError("The engine sent a bad answer.")
