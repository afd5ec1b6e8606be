"""Some metrics of all processes of this gateway, added up, as plain numbers.

With several processes the values are read from prometheus-client's files. Only the few keys that
are wanted are parsed: a page of all metrics takes ten times as long.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.mmap_dict import MmapedDict

from gateway.telemetry.distribution import Distribution
from gateway.telemetry.metrics import LATENCY_BUCKETS, TOKEN_BUCKETS
from gateway.types import WorkerId

_Value = tuple[str, Mapping[str, str], float]
"""Name, labels, value; a bucket's value does not contain those of the buckets below it."""

_NAMES = (
    "gateway_inflight_requests",
    "gateway_inter_token_seconds_bucket",
    "gateway_queue_depth",
    "gateway_requests_total",
    "gateway_time_to_first_token_seconds_bucket",
    "gateway_unstreamed_tokens_total",
    "gateway_worker_ejected",
    "gateway_worker_ejections_total",
    "gateway_worker_inflight_requests",
    "gateway_worker_up",
)
_KEYS = tuple(
    f'["{name.removesuffix("_bucket").removesuffix("_total")}", "{name}", ' for name in _NAMES
)
"""How their keys begin in prometheus-client's files: family and name."""


@dataclass(frozen=True, slots=True)
class WorkerTotals:
    """A worker, as all processes see it.

    Attributes:
        up: It passes the health checks of every process.
        ejected: A process gives it no requests for a while.
        ejections: So far, of all processes.
        in_flight: Requests that it runs for the gateway.
    """

    up: bool = False
    ejected: bool = False
    ejections: int = 0
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """The gateway so far; sums since its start, unless it says now.

    Attributes:
        requests: That ended.
        tokens: That were generated. A stream's first token counts when the stream ends, its others
            as they come; other answers count when they end.
        active: Requests that hold a slot now.
        queued: Requests that wait for a slot now.
        first_token: Seconds from a stream's request to its first text.
        raw_gaps: Seconds between tokens as they came from workers.
        paced_gaps: Seconds between tokens as they were handed to clients.
        workers: By id, now.
    """

    requests: float
    tokens: float
    active: int
    queued: int
    first_token: Distribution
    raw_gaps: Distribution
    paced_gaps: Distribution
    workers: Mapping[WorkerId, WorkerTotals]


def read_totals(registry: CollectorRegistry, folder: Path | None) -> Totals:
    """Read the metrics of this process, or of all processes.

    Args:
        registry: Of this process.
        folder: Where the processes share their metrics; None: there is one process.

    Raises:
        OSError: A file cannot be read.
    """
    found = defaultdict[str, list[tuple[Mapping[str, str], float]]](list)
    for name, labels, value in _own(registry) if folder is None else _shared(folder):
        if not isnan(value):  # which marks a worker that left
            found[name].append((labels, value))

    def total(name: str) -> float:
        return sum(value for _, value in found[name])

    gaps = found["gateway_inter_token_seconds_bucket"]
    first = _distribution(found["gateway_time_to_first_token_seconds_bucket"], LATENCY_BUCKETS)
    raw, paced = (
        _distribution([one for one in gaps if one[0]["stage"] == stage], TOKEN_BUCKETS)
        for stage in ("worker", "client")
    )
    return Totals(
        requests=total("gateway_requests_total"),
        tokens=raw.total + first.total + total("gateway_unstreamed_tokens_total"),
        active=int(total("gateway_inflight_requests")),
        queued=int(total("gateway_queue_depth")),
        first_token=first,
        raw_gaps=raw,
        paced_gaps=paced,
        workers=_workers(found),
    )


def _own(registry: CollectorRegistry) -> Iterator[_Value]:
    for family in registry.restricted_registry(_NAMES).collect():
        below = 0.0
        for name, labels, value, *_ in family.samples:
            if not name.endswith("_bucket"):
                yield name, labels, value
                continue
            yield name, labels, value - below
            below = 0.0 if labels["le"] == "+Inf" else value


def _shared(folder: Path) -> Iterator[_Value]:
    for path in folder.glob("*.db"):
        try:
            values = list(MmapedDict.read_all_values_from_file(str(path)))  # type: ignore[no-untyped-call]  # library has no types
        except FileNotFoundError:
            continue  # the gauges of a process that has just ended
        for key, value, *_ in values:
            if key.startswith(_KEYS):
                _, name, labels, _ = json.loads(key)
                yield name, labels, value
        time.sleep(0)  # lets the event loop's thread run


def _distribution(
    values: Sequence[tuple[Mapping[str, str], float]], bounds: Sequence[float]
) -> Distribution:
    by_bound = dict.fromkeys((*bounds, float("inf")), 0.0)
    for labels, value in values:
        by_bound[float(labels["le"])] += value
    return Distribution(tuple(bounds), tuple(by_bound.values()))


def _workers(
    found: Mapping[str, Sequence[tuple[Mapping[str, str], float]]],
) -> dict[WorkerId, WorkerTotals]:
    def by_worker(name: str) -> dict[str, list[float]]:
        values = defaultdict[str, list[float]](list)
        for labels, value in found.get(name, ()):
            values[labels["worker"]].append(value)
        return values

    ejected = by_worker("gateway_worker_ejected")
    ejections = by_worker("gateway_worker_ejections_total")
    in_flight = by_worker("gateway_worker_inflight_requests")
    return {
        WorkerId(worker): WorkerTotals(
            up=min(ups) > 0,
            ejected=max(ejected[worker], default=0.0) > 0,
            ejections=int(sum(ejections[worker])),
            in_flight=int(sum(in_flight[worker])),
        )
        for worker, ups in by_worker("gateway_worker_up").items()
    }
