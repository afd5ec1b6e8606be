"""The border where the HTTP client's exceptions become ours; none of them passes it."""

from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from gateway.errors import UpstreamError, WorkerLostError, WorkerTimeoutError

_LOST = "The connection to the engine was lost."


@contextmanager
def mapped_errors() -> Iterator[None]:
    """Turn whatever aiohttp (or the socket below it) raises into an `UpstreamError`.

    `WorkerLostError.sent` is False only where the connection was never made.
    """
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise WorkerLostError("The engine could not be reached in time.", sent=False) from error
    except aiohttp.ClientConnectorError as error:
        raise WorkerLostError("The engine could not be reached.", sent=False) from error
    except (aiohttp.ServerTimeoutError, TimeoutError) as error:
        raise WorkerTimeoutError("The engine stayed silent for too long.") from error
    except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError) as error:
        raise WorkerLostError(_LOST, sent=True) from error
    except (aiohttp.ClientError, HttpProcessingError) as error:
        raise UpstreamError("The engine sent a bad answer.") from error
