"""HEAD is answered like GET, without a body, on every path that has GET."""

import pytest

from tests.integration.connection import connect
from tests.integration.process import GatewayProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

_PATHS = (
    "/heads",
    "/health",
    "/health/live",
    "/health/ready",
    "/health/workers",
    "/live",
    "/metrics",
    "/openapi.json",
    "/ping",
    "/speculation",
    "/v1/models",
    "/v1/models/",
    "/v1/models/fake-model",
    "/version",
)


@pytest.mark.parametrize("path", _PATHS)
async def test_head_has_the_status_of_get_and_no_body(
    shared_process: GatewayProcess, path: str
) -> None:
    request = f"{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    async with connect(shared_process.port) as connection:
        await connection.send(f"HEAD {request}".encode())
        head = await connection.read_to_end()
    async with connect(shared_process.port) as connection:
        await connection.send(f"GET {request}".encode())
        whole = await connection.read_to_end()

    assert head.partition(b"\r\n")[0] == whole.partition(b"\r\n")[0] == b"HTTP/1.1 200 OK"
    assert head.partition(b"\r\n\r\n")[2] == b""
    assert whole.partition(b"\r\n\r\n")[2] != b""
