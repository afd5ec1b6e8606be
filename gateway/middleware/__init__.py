"""ASGI middleware: request id, access log and counts."""

from gateway.middleware.observe import RECORD, Observe

__all__ = ["RECORD", "Observe"]
