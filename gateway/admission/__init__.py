"""Admission control: API keys, tenants, limits and the queue. The clock is passed in."""

from gateway.admission.admission import ANONYMOUS, Admission, BytesInFlight, Entry
from gateway.admission.key_file import WatchedKeyFile, add_record, read_records, remove_record
from gateway.admission.keys import Caller, KeyLimits, KeyRecord, KeyRing, new_key
from gateway.admission.limits import Limits
from gateway.admission.local_limits import (
    MAX_PROCESSES,
    Ledger,
    LocalLimits,
    create_shared_ledger,
)
from gateway.admission.slots import Slots
from gateway.admission.store_limits import open_store_limits, require_redis

__all__ = [
    "ANONYMOUS",
    "MAX_PROCESSES",
    "Admission",
    "BytesInFlight",
    "Caller",
    "Entry",
    "KeyLimits",
    "KeyRecord",
    "KeyRing",
    "Ledger",
    "Limits",
    "LocalLimits",
    "Slots",
    "WatchedKeyFile",
    "add_record",
    "create_shared_ledger",
    "new_key",
    "open_store_limits",
    "read_records",
    "remove_record",
    "require_redis",
]
