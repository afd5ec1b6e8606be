import pytest

from gateway.protocol.endpoints import ENDPOINTS, Dialect, forwarded_endpoint


@pytest.mark.parametrize(
    ("dialect", "streams"),
    [
        (Dialect.CHAT, True),
        (Dialect.COMPLETIONS, True),
        (Dialect.RESPONSES, False),
        (Dialect.MESSAGES, False),
        (Dialect.PLAIN, False),
    ],
    ids=str,
)
def test_only_openais_older_endpoints_have_a_usage_chunk(dialect: Dialect, streams: bool) -> None:
    found = {endpoint.streams_usage_chunk for endpoint in ENDPOINTS if endpoint.dialect is dialect}

    assert found == {streams}


def test_a_forwarded_path_is_touched_nowhere() -> None:
    endpoint = forwarded_endpoint("/pooling")

    assert (endpoint.path, endpoint.dialect) == ("/pooling", Dialect.PLAIN)
    assert not (endpoint.takes_xargs)
    assert not (endpoint.takes_salt)
    assert not endpoint.required
