"""The objects that the lifespan builds and the routes use."""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.admission import Admission
from gateway.canary import Canary
from gateway.live import Sampler
from gateway.protocol import TenantDigests
from gateway.responses import Conversations
from gateway.serving import Serving
from gateway.supervisor import Supervisor
from gateway.upstream import Pool


@dataclass(slots=True)
class Services:
    """The running gateway.

    Attributes:
        admission: Authenticates and admits requests.
        pool: The workers.
        serving: Serves calls.
        supervisor: Of the gateway's own worker; None if all workers are remote or another
            process of this gateway supervises it.
        conversations: What is kept of `/v1/responses`.
        canary: Watches that speculation changes nothing.
        is_draining: Whether SIGTERM was received.
        digests: Makes the names under which the workers know tenants.
        live: What `GET /live` shows.
    """

    admission: Admission
    pool: Pool
    serving: Serving
    supervisor: Supervisor | None
    conversations: Conversations
    canary: Canary
    is_draining: Callable[[], bool]
    digests: TenantDigests
    live: Sampler
