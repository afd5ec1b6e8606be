"""Who may enter and how fast: keys, tenants, limits, queue; the clock is passed in."""

from gateway.admission.gate import ANONYMOUS, Entry, Gate
from gateway.admission.key_file import WatchedKeyFile, add_record, read_records, remove_record
from gateway.admission.keys import Caller, KeyLimits, KeyRecord, KeyRing, new_key
from gateway.admission.ledger import MAX_PROCESSES, Ledger, create_shared_ledger
from gateway.admission.limits import Limits
from gateway.admission.places import Places

__all__ = [
    "ANONYMOUS",
    "MAX_PROCESSES",
    "Caller",
    "Entry",
    "Gate",
    "KeyLimits",
    "KeyRecord",
    "KeyRing",
    "Ledger",
    "Limits",
    "Places",
    "WatchedKeyFile",
    "add_record",
    "create_shared_ledger",
    "new_key",
    "read_records",
    "remove_record",
]
