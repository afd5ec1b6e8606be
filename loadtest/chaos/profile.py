"""The settings under which faults happen: the default profile with short time-outs. Pure.

Time-outs of minutes are seconds here, so that two hundred faults take minutes. Measured recoveries
include these times, so the report knows each of them (`patience_seconds`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadtest.chaos.faults import Kind

SILENCE_SECONDS = 4.0
"""A worker that sends nothing for so long has failed (behind the proxies)."""
CHECK_SECONDS = 0.5
LOOK_SECONDS = 2.0
UNHEALTHY_SECONDS = 6.0
STALLED_SECONDS = 8.0
ACCEPT_SECONDS = 1.0
FINISH_SECONDS = 5.0
SAVE_SECONDS = 4.0
"""Between two savings of the suffix index."""
REQUEST_SECONDS = 150.0
"""Longest life of a request."""
MOST_REPLAYS = 2
"""Times that a request is sent again: the default, named because it is judged by."""
STOP_SECONDS = 45.0
"""From SIGTERM to a gateway until it, and a worker that it owns, must be gone."""

_WAIT_SECONDS = 120.0
_WORKER_STOP_SECONDS = 10.0

Settings = dict[str, Any]


def proxied_gateway(default: Mapping[str, Any], *, port: int, worker_ports: list[int]) -> Settings:
    """The gateway in front of remote workers."""
    workers = [f"http://127.0.0.1:{each}" for each in worker_ports]
    settings = _gateway(default, port=port, silence_seconds=SILENCE_SECONDS)
    return {**settings, "workers": workers}


def service_gateway(default: Mapping[str, Any], *, port: int, worker_log: Path) -> Settings:
    """The gateway that owns its worker; its supervisor detects a silent one."""
    settings = _gateway(default, port=port, silence_seconds=REQUEST_SECONDS)
    supervisor = {
        "check_seconds": CHECK_SECONDS,
        "probe_seconds": LOOK_SECONDS,
        "unhealthy_seconds": UNHEALTHY_SECONDS,
        "stalled_seconds": STALLED_SECONDS,
        "stop_seconds": _WORKER_STOP_SECONDS,
        # A worker that is killed over and over on purpose need not be spared.
        "backoff_seconds": 0.1,
        "backoff_max_seconds": 0.1,
        "log_file": str(worker_log),
    }
    return {**settings, "supervisor": supervisor}


def worker(default: Mapping[str, Any], *, cache_dir: Path) -> Settings:
    """The engine, with its own cache, less memory and more frequent snapshots."""
    speculation = default.get("speculation", {})
    suffix = {"save_every_s": SAVE_SECONDS, "capacity_mb": 64}
    return {
        **default,
        "cache_dir": str(cache_dir),
        "environment": {**default.get("environment", {}), "VLLM_CPU_KVCACHE_SPACE": 1},
        "speculation": {**speculation, "suffix": {**speculation.get("suffix", {}), **suffix}},
    }


def patience_seconds(kind: Kind) -> float:
    """Time-out in the settings before the gateway reacts to a fault of this kind."""
    a_look = CHECK_SECONDS + 2 * LOOK_SECONDS  # at its health, and at its progress
    match kind:
        case Kind.FREEZE | Kind.HANG_ANSWER:
            return SILENCE_SECONDS
        case Kind.STOP_API_SERVER:
            return UNHEALTHY_SECONDS + a_look
        case Kind.STOP_ENGINE_CORE:
            return STALLED_SECONDS + a_look
        case Kind.FULL_DISK:
            return SAVE_SECONDS
        case _:
            return 0.0


def _gateway(default: Mapping[str, Any], *, port: int, silence_seconds: float) -> Settings:
    return {
        **default,
        "host": "127.0.0.1",
        "port": port,
        "request": {
            "silence_seconds": silence_seconds,
            "total_seconds": REQUEST_SECONDS,
            "wait_for_worker_seconds": _WAIT_SECONDS,
            "max_replays": MOST_REPLAYS,
        },
        "upstream": {"probe_seconds": CHECK_SECONDS, "probe_timeout_seconds": LOOK_SECONDS},
        "drain": {"accept_seconds": ACCEPT_SECONDS, "finish_seconds": FINISH_SECONDS},
        "log": {"format": "json"},
    }
