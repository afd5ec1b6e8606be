"""API keys: their format, how they are stored (hashed), and how a request's key is checked.

A key is `sg-<id>-<secret>`. The id is public and identifies the record. The secret has 256 random
bits, so one SHA-256 is enough: a slow hash only helps with secrets that can be guessed.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field, with_config

from gateway.errors import AuthenticationError
from gateway.types import PacingMode

_KEY = re.compile(r"sg-([0-9a-f]{12})-([A-Za-z0-9_-]{43})")
_ABSENT_DIGEST = "0" * 64
_STORED = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

Limit = Annotated[int, Field(ge=1)]


@with_config(_STORED)
@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The limits of one key; None: no limit."""

    requests_per_minute: Limit | None = None
    tokens_per_minute: Limit | None = None
    concurrent_requests: Limit | None = None


@with_config(_STORED)
@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key as it is stored, without its secret."""

    key_id: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    secret_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    tenant: str
    name: str
    created: str
    limits: KeyLimits
    models: tuple[str, ...] | None = None
    """Names of the models it may use; None: all."""
    pacing: PacingMode | None = None
    """How its streams are paced; None: as the model or the profile says."""
    admin: bool = False
    """Whether it may change what all tenants share, such as the draft heads."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: its tenant, and the settings of its key."""

    tenant: str
    key_id: str | None
    limits: KeyLimits
    models: tuple[str, ...] | None = None
    pacing: PacingMode | None = None
    is_admin: bool = False

    def may_use(self, model: str | None) -> bool:
        """Whether the key may use `model`; None: the worker's default model."""
        return self.models is None or model in self.models


def new_key(
    *,
    tenant: str,
    name: str,
    created: str,
    limits: KeyLimits,
    models: tuple[str, ...] | None = None,
    pacing: PacingMode | None = None,
    admin: bool = False,
) -> tuple[str, KeyRecord]:
    """Create a key; returns its text, which is not stored, and its record."""
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    record = KeyRecord(
        key_id, _digest(secret), tenant, name, created, limits, models, pacing, admin
    )
    return f"sg-{key_id}-{secret}", record


class KeyRing:
    """The valid keys, by id."""

    def __init__(self, records: Iterable[KeyRecord], *, defaults: KeyLimits) -> None:
        self._records: Mapping[str, KeyRecord] = {record.key_id: record for record in records}
        self._defaults = defaults

    def __len__(self) -> int:
        return len(self._records)

    def recognise(self, authorization: str | None) -> Caller:
        """Find the caller by an `Authorization` header.

        Raises:
            AuthenticationError: There is no bearer key, or it is malformed, unknown or revoked. The
                response time does not show which.
        """
        if authorization is None:
            raise AuthenticationError("You must provide an API key: 'Authorization: Bearer ...'.")
        scheme, _, presented = authorization.partition(" ")
        match = _KEY.fullmatch(presented.strip())
        key_id, secret = match.groups() if match else ("", "")
        record = self._records.get(key_id)
        expected = record.secret_sha256 if record else _ABSENT_DIGEST
        same = hmac.compare_digest(_digest(secret), expected)
        if record is None or not same or scheme.lower() != "bearer":
            raise AuthenticationError("Incorrect API key provided.")
        limits = self._effective(record.limits)
        return Caller(
            record.tenant, record.key_id, limits, record.models, record.pacing, record.admin
        )

    def _effective(self, own: KeyLimits) -> KeyLimits:
        default = self._defaults
        return KeyLimits(
            _first(own.requests_per_minute, default.requests_per_minute),
            _first(own.tokens_per_minute, default.tokens_per_minute),
            _first(own.concurrent_requests, default.concurrent_requests),
        )


def _first(own: int | None, default: int | None) -> int | None:
    return default if own is None else own


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
