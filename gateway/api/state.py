"""What the lifespan builds and the routes use."""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.admission import Admission
from gateway.serving import Serving
from gateway.supervisor import Supervisor
from gateway.upstream import Pool


@dataclass(slots=True)
class Services:
    """The running gateway.

    Attributes:
        admission: Who may enter.
        pool: The workers.
        serving: Serves calls.
        supervisor: Of the worker we started ourselves; None when all are remote or another
            process of this gateway owns it.
        is_draining: Whether SIGTERM was received.
    """

    admission: Admission
    pool: Pool
    serving: Serving
    supervisor: Supervisor | None
    is_draining: Callable[[], bool]
