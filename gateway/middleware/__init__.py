"""Plain ASGI classes: body limit, and one that gives a request its id and sees its true end."""

from gateway.middleware.body_limit import BodyLimit
from gateway.middleware.observe import RECORD, Observe

__all__ = ["RECORD", "BodyLimit", "Observe"]
