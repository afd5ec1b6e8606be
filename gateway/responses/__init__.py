"""Stored responses: conversations on `/v1/responses` that continue, and the stores that keep them.

Knows neither FastAPI nor workers. A store is SQLite's file, or a PostgreSQL database for replicas.
"""

from gateway.responses.conversations import (
    ConversationMeters,
    ConversationPolicy,
    Conversations,
)
from gateway.responses.opening import check_store, open_store
from gateway.responses.store import Bounds, ResponseStore, StoredResponse, StoreError, Swept

__all__ = [
    "Bounds",
    "ConversationMeters",
    "ConversationPolicy",
    "Conversations",
    "ResponseStore",
    "StoreError",
    "StoredResponse",
    "Swept",
    "check_store",
    "open_store",
]
