"""ASGI middleware: request id and access log, body limit, and direct routing."""

from gateway.middleware.body_limit import BodyLimit
from gateway.middleware.direct import DirectRoutes
from gateway.middleware.observe import RECORD, Observe

__all__ = ["RECORD", "BodyLimit", "DirectRoutes", "Observe"]
