"""API keys for tests."""

from pathlib import Path

from gateway.admission import KeyLimits, add_record, new_key
from gateway.types import PacingMode


def issue_key(
    file: Path,
    limits: KeyLimits | None = None,
    *,
    tenant: str = "acme",
    models: tuple[str, ...] | None = None,
    pacing: PacingMode | None = None,
    admin: bool = False,
) -> str:
    """Add a new key to a key file; returns its text."""
    text, record = new_key(
        tenant=tenant,
        name="",
        created="2026-01-01",
        limits=limits or KeyLimits(),
        models=models,
        pacing=pacing,
        admin=admin,
    )
    add_record(file, record)
    return text


def bearer(key: str) -> dict[str, str]:
    """The header that presents a key."""
    return {"authorization": f"Bearer {key}"}
