"""Admission control: API keys, tenants, limits and the queue. The clock is passed in."""

from gateway.admission.admission import ANONYMOUS, Admission, BytesInFlight, Entry
from gateway.admission.key_file import WatchedKeyFile, add_record, read_records, remove_record
from gateway.admission.keys import Caller, KeyLimits, KeyRecord, KeyRing, new_key
from gateway.admission.ledger import MAX_PROCESSES, Ledger, create_shared_ledger
from gateway.admission.limits import Limits
from gateway.admission.slots import Slots

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
    "Slots",
    "WatchedKeyFile",
    "add_record",
    "create_shared_ledger",
    "new_key",
    "read_records",
    "remove_record",
]
