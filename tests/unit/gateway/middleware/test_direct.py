import httpx
import pytest
from starlette.responses import PlainTextResponse

from gateway.middleware import DirectRoutes


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/short", "direct"),
        ("GET", "/short", "router"),
        ("POST", "/short/", "router"),
        ("POST", "/other", "router"),
    ],
)
async def test_only_a_post_to_a_known_path_is_routed_directly(
    method: str, path: str, expected: str
) -> None:
    app = DirectRoutes(PlainTextResponse("router"), routes={"/short": PlainTextResponse("direct")})
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        answer = await client.request(method, path)

    assert answer.text == expected
