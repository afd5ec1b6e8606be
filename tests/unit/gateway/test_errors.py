from collections.abc import Iterator

import pytest

from gateway import errors
from gateway.errors import (
    AuthenticationError,
    BodyTooLargeError,
    CallerError,
    CapacityError,
    GatewayError,
    InternalError,
    RateLimitError,
    RelayedError,
    UpstreamError,
)


def kinds() -> Iterator[type[GatewayError]]:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, GatewayError):
            yield value


@pytest.mark.parametrize("kind", list(kinds()), ids=lambda kind: kind.__name__)
def test_every_error_belongs_to_a_family(kind: type[GatewayError]) -> None:
    families = (CallerError, CapacityError, UpstreamError, InternalError, RelayedError)

    assert kind is GatewayError or issubclass(kind, families)


@pytest.mark.parametrize("family", [CallerError, CapacityError, UpstreamError, InternalError])
def test_reasons_are_unique_within_a_family(family: type[GatewayError]) -> None:
    members = [kind for kind in kinds() if issubclass(kind, family) and kind is not family]
    reasons = [kind.reason for kind in members]

    assert len(set(reasons)) == len(reasons)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.01, "1"), (1.0, "1"), (1.2, "2"), (2.4, "3"), (59.0, "59")]
)
def test_retry_after_is_never_too_early(seconds: float, shown: str) -> None:
    error = RateLimitError("", retry_after_seconds=seconds)

    assert error.headers == {"retry-after": shown}


def test_without_a_time_there_is_no_retry_after() -> None:
    assert UpstreamError("").headers == {}


def test_some_errors_have_the_header_that_http_requires() -> None:
    assert AuthenticationError("").headers == {"www-authenticate": "Bearer"}
    assert BodyTooLargeError("").headers == {"connection": "close"}


def test_a_relayed_error_has_its_own_fields() -> None:
    error = RelayedError("m", status=418, type="t", code="c", param="p", retry_after_seconds=1)

    assert (error.status, error.type, error.code, error.param) == (418, "t", "c", "p")
    assert RelayedError.status == 500
