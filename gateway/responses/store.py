"""What is kept of a response, where, and for how long: the interface of both stores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

SCHEMA_VERSION = 1
"""Of the tables. A store with another version is refused."""


class StoreError(Exception):
    """The store failed or did not answer in time; its message says why and holds no text."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One turn of a conversation.

    Attributes:
        tenant: Whose it is; nobody else can reach it.
        id: The response's id, unique within the tenant.
        previous_id: The response before it; None: it begins a conversation.
        created: When it was stored, in seconds since 1970.
        items: The items that the request added, as a JSON array.
        response: The response object, as the client got it.
    """

    tenant: str
    id: str
    previous_id: str | None
    created: int
    items: bytes
    response: bytes

    @property
    def size(self) -> int:
        """Its bytes, as they count towards the bounds."""
        return len(self.items) + len(self.response)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is kept.

    Attributes:
        ttl_seconds: How long a response is kept.
        tenant_bytes: Most bytes of one tenant.
        total_bytes: Most bytes of all tenants.
    """

    ttl_seconds: int
    tenant_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did.

    Attributes:
        expired: Responses removed because of their age.
        evicted: Responses removed because they were the oldest over a bound.
        kept_bytes: Bytes that are left, of all tenants.
    """

    expired: int
    evicted: int
    kept_bytes: int


class ResponseStore(Protocol):
    """Keeps responses by tenant and id; all methods raise `StoreError`.

    `oldest` is the earliest time of creation that is still valid: what is older is not found, even
    before a sweep removes it.
    """

    async def put(self, response: StoredResponse) -> bool:
        """Store a response; False if its id is taken, and nothing changed."""

    async def get(self, tenant: str, id: str, *, oldest: int) -> StoredResponse | None:
        """A response; None if there is none."""

    async def chain(
        self, tenant: str, id: str, *, oldest: int, most: int, most_bytes: int
    ) -> Sequence[StoredResponse]:
        """A response and those before it, oldest first.

        Stops after `most` + 1 responses, and after the first one that exceeds `most_bytes`.
        """

    async def delete(self, tenant: str, id: str, *, oldest: int) -> bool:
        """Delete a response; False if there is none."""

    async def sweep(self, bounds: Bounds, *, now: int) -> Swept:
        """Remove what is too old, then the oldest responses over a bound."""

    async def close(self) -> None:
        """Finish what was begun, and close."""
