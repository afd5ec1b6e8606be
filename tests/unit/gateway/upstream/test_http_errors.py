import ssl
from collections.abc import Iterator

import aiohttp
import pytest
from aiohttp import client_exceptions, http_exceptions

from gateway.errors import UpstreamError, WorkerLostError, WorkerTimeoutError
from gateway.upstream.http_errors import mapped_errors


def exceptions_of_aiohttp() -> Iterator[type[Exception]]:
    """Every exception class that aiohttp's client defines, those it forgot to export too."""
    for module in (client_exceptions, http_exceptions):
        for value in vars(module).values():
            is_own = isinstance(value, type) and value.__module__ == module.__name__
            if is_own and issubclass(value, Exception):
                yield value


# The gateway opens no WebSocket.
KINDS = sorted(
    set(exceptions_of_aiohttp()) - {aiohttp.WSMessageTypeError}, key=lambda kind: kind.__name__
)


def raise_mapped(error: BaseException) -> None:
    with mapped_errors():
        raise error


def test_the_list_of_exceptions_is_really_walked() -> None:
    assert {aiohttp.ClientError, aiohttp.ServerDisconnectedError, aiohttp.InvalidURL} < set(KINDS)
    assert http_exceptions.TransferEncodingError in KINDS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_exception_of_the_client_passes_the_border(kind: type[Exception]) -> None:
    error = kind.__new__(kind)

    with pytest.raises(UpstreamError) as caught:
        raise_mapped(error)

    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        aiohttp.ConnectionTimeoutError(),
        aiohttp.ClientConnectorError.__new__(aiohttp.ClientConnectorError),
        aiohttp.ClientConnectorDNSError.__new__(aiohttp.ClientConnectorDNSError),
        client_exceptions.UnixClientConnectorError.__new__(
            client_exceptions.UnixClientConnectorError
        ),
        aiohttp.ClientConnectorSSLError.__new__(aiohttp.ClientConnectorSSLError),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_was_never_sent_is_said_to_be_so(error: Exception) -> None:
    with pytest.raises(WorkerLostError) as caught:
        raise_mapped(error)

    assert not caught.value.sent


@pytest.mark.parametrize(
    "error",
    [
        aiohttp.ServerDisconnectedError(),
        aiohttp.ClientOSError(),
        aiohttp.ClientConnectionResetError(),
        aiohttp.ClientPayloadError(),
        ConnectionResetError(),
        BrokenPipeError(),
        ssl.SSLError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_connection_that_broke_may_have_carried_the_request(error: Exception) -> None:
    with pytest.raises(WorkerLostError) as caught:
        raise_mapped(error)

    assert caught.value.sent


@pytest.mark.parametrize(
    "error",
    [aiohttp.SocketTimeoutError(), aiohttp.ServerTimeoutError(), TimeoutError()],
    ids=lambda error: type(error).__name__,
)
def test_silence_is_a_timeout(error: Exception) -> None:
    with pytest.raises(WorkerTimeoutError):
        raise_mapped(error)


def test_our_own_errors_and_bugs_pass() -> None:
    for error in (UpstreamError("ours"), ZeroDivisionError(), KeyError()):
        with pytest.raises(type(error)) as caught:
            raise_mapped(error)
        assert caught.value is error
