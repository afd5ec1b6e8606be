"""Plain ASGI classes: request id and true end, body limit, and the short way to the routes."""

from gateway.middleware.body_limit import BodyLimit
from gateway.middleware.direct import DirectRoutes
from gateway.middleware.observe import RECORD, Observe

__all__ = ["RECORD", "BodyLimit", "DirectRoutes", "Observe"]
