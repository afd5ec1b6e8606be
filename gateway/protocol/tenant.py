"""Names of tenants for workers, which keep what they learn of each tenant apart."""

import hmac
import json
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TenantDigests:
    """Turns tenants into opaque names. Gateways with the same secret make the same names.

    Attributes:
        secret: Without it nobody can compute a tenant's name, or test a guess.
        learnt_from: Tenants that agreed that draft heads learn from their traffic.
    """

    secret: bytes = field(repr=False)
    learnt_from: frozenset[str] = frozenset()

    def of(self, tenant: str, salt: str = "") -> str:
        """The name of `tenant`; 32 hexadecimal digits.

        `salt` is the caller's own `cache_salt`. It can divide a tenant's cache, but it never gives
        access to another tenant's.
        """
        message = json.dumps(["specgate", tenant, salt]).encode()
        return hmac.digest(self.secret, message, "sha256").hex()[:32]
