import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from gateway.telemetry import GatewayMetrics
from gateway.types import Acceptance, RequestId, RequestRecord, SourceCount, Usage, WorkerId

RECORD = RequestRecord(
    RequestId("req-1"),
    "/v1/chat/completions",
    "POST",
    100.0,
    model="m",
    stream=True,
    status=200,
    outcome="completed",
    stream_end="completed",
    first_token_seconds=100.25,
    usage=Usage(7, 5, 2),
    acceptance=Acceptance(
        4,
        2.5,
        {
            "suffix": SourceCount(10, 6),
            "native": SourceCount(8, 2),
            "head": SourceCount(0, 0),
        },
    ),
)
OPEN = "application/openmetrics-text; version=1.0.0"

TWO_PROCESSES = """
import asyncio
from prometheus_client import CollectorRegistry
from gateway.telemetry import GatewayMetrics
from gateway.types import RequestId, RequestRecord

async def observe_gaps():
    metrics.gaps_to_client.observe(0.25, 3)
    metrics.gaps_to_client.flush()

metrics = GatewayMetrics(CollectorRegistry(), multiprocess=True)
metrics.slots_changed(3, 1)
record = RequestRecord(RequestId("r"), "/x", "POST", 0.0, outcome="completed")
metrics.request_ended(record, now=1.0)
asyncio.run(observe_gaps())
metrics.workers_known({up})
metrics.worker_up("w", {up})
metrics.worker_joined("gone")
metrics.worker_up("gone", 1)
metrics.worker_failed("gone", "lost")
metrics.worker_ejected("gone", "lost")
metrics.worker_left("gone")
metrics.worker_joined("back")
metrics.worker_failed("back", "lost")
metrics.worker_left("back")
metrics.worker_joined("back")
if {show}:
    print(metrics.exposition("")[0].decode())
    input()
"""


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> GatewayMetrics:
    return GatewayMetrics(registry)


async def test_gaps_of_a_stream_are_visible_when_it_is_counted(
    metrics: GatewayMetrics, registry: CollectorRegistry
) -> None:
    metrics.gaps_from_worker.observe(0.25, 4)
    metrics.gaps_to_client.observe(0.5, 2)
    metrics.request_ended(RECORD, now=102.0)

    for stage, count in (("worker", 4), ("client", 2)):
        labels = {"stage": stage}
        assert registry.get_sample_value("gateway_inter_token_seconds_count", labels) == count
        assert registry.get_sample_value("gateway_inter_token_seconds_sum", labels) == 1.0


def test_a_finished_stream_is_counted(metrics: GatewayMetrics, registry: CollectorRegistry) -> None:
    metrics.request_ended(RECORD, now=102.0)

    seen = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith(("_created", "_bucket"))
    }
    path = "/v1/chat/completions"
    expected = {
        ("gateway_requests_total", path, "completed", "m"): 1,
        ("gateway_request_duration_seconds_sum", path, "m"): 2.0,
        ("gateway_time_to_first_token_seconds_sum", "m"): 0.25,
        ("gateway_tokens_total", "m", "prompt"): 7,
        ("gateway_tokens_total", "cached", "m"): 2,
        ("gateway_tokens_total", "completion", "m"): 5,
        ("gateway_stream_terminations_total", "completed"): 1,
        ("gateway_request_acceptance_length_sum", "m"): 2.5,
        ("gateway_request_draft_tokens_sum", "m", "suffix"): 10,
        ("gateway_request_draft_tokens_count", "m", "suffix"): 1,
        ("gateway_request_acceptance_ratio_count", "m", "suffix"): 1,
        ("gateway_request_acceptance_ratio_sum", "m", "native"): 0.25,
        ("gateway_request_acceptance_ratio_sum", "m", "suffix"): 0.6,
    }
    assert expected.items() <= seen.items()
    assert ("gateway_request_acceptance_ratio_count", "head", "m") not in seen
    assert ("gateway_request_draft_tokens_count", "head", "m") not in seen


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [
        ("rejected", 1.0),
        ("caller_error", 1.0),
        ("upstream_error", 0.0),
        ("cancelled", 0.0),
    ],
)
def test_rejections_are_counted_by_reason(
    metrics: GatewayMetrics, registry: CollectorRegistry, outcome: object, counted: float
) -> None:
    record = replace(RECORD, reason="queue_full")
    record.outcome = outcome  # type: ignore[assignment]  # from the table above

    metrics.request_ended(record, now=101.0)

    assert (
        registry.get_sample_value("gateway_rejections_total", {"reason": "queue_full"}) == counted
    )


def test_a_request_without_an_answer_has_no_tokens(
    metrics: GatewayMetrics, registry: CollectorRegistry
) -> None:
    bare = RequestRecord(RequestId("r"), "/x", "GET", 0.0, status=404, outcome="caller_error")

    metrics.request_ended(bare, now=0.5)

    names = {sample.name for family in registry.collect() for sample in family.samples}
    assert "gateway_requests_total" in names
    assert "gateway_tokens_total" not in names
    assert "gateway_time_to_first_token_seconds_count" not in names
    ended = {"outcome": "completed"}
    assert registry.get_sample_value("gateway_stream_terminations_total", ended) == 0


def test_acceptance_without_a_drafted_step_has_no_length(
    metrics: GatewayMetrics, registry: CollectorRegistry
) -> None:
    none = Acceptance(0, None, {"native": SourceCount(0, 0)})

    metrics.request_ended(replace(RECORD, acceptance=none), now=101.0)

    names = {sample.name for family in registry.collect() for sample in family.samples}
    assert "gateway_request_acceptance_length_count" not in names


def test_workers_and_slots_are_shown(metrics: GatewayMetrics, registry: CollectorRegistry) -> None:
    worker = WorkerId("w")

    metrics.slots_changed(3, 2)
    metrics.workers_known(5)
    metrics.worker_up(worker, True)
    metrics.worker_up(worker, False)
    metrics.worker_failed(worker, "lost")
    metrics.worker_ejected(worker, "lost")
    metrics.worker_restarted(worker, "stalled")

    shown = {
        "gateway_inflight_requests": {},
        "gateway_queue_depth": {},
        "gateway_workers": {},
        "gateway_worker_up": {"worker": "w"},
        "gateway_upstream_failures_total": {"worker": "w", "reason": "lost"},
        "gateway_worker_ejected": {"worker": "w"},
        "gateway_worker_ejections_total": {"worker": "w", "reason": "lost"},
        "gateway_worker_restarts_total": {"worker": "w", "reason": "stalled"},
    }
    values = [registry.get_sample_value(name, labels) for name, labels in shown.items()]
    assert values == [3, 2, 5, 0, 1, 1, 1, 1]


def test_counters_for_alerts_start_at_zero(
    metrics: GatewayMetrics, registry: CollectorRegistry
) -> None:
    metrics.request_ended(RECORD, now=101.0)

    served = {"endpoint": RECORD.endpoint, "model": RECORD.model, "outcome": "upstream_error"}
    series: list[tuple[str, dict[str, str]]] = [
        ("gateway_requests_total", served),
        ("gateway_stream_terminations_total", {"outcome": "error_event"}),
        ("gateway_rejections_total", {"reason": "queue_timeout"}),
    ]
    assert [registry.get_sample_value(name, labels) for name, labels in series] == [0, 0, 0]


def test_restarts_start_at_zero(metrics: GatewayMetrics, registry: CollectorRegistry) -> None:
    metrics.expect_restarts(WorkerId("w"), ("exited", "stalled"))

    labels = {"worker": "w", "reason": "stalled"}
    assert registry.get_sample_value("gateway_worker_restarts_total", labels) == 0


def test_the_format_follows_the_accept_header(metrics: GatewayMetrics) -> None:
    plain, plain_type = metrics.exposition("text/plain")
    opened, open_type = metrics.exposition(OPEN)

    assert plain_type.startswith("text/plain; version=0.0.4")
    assert open_type.startswith("application/openmetrics-text")
    assert (plain.endswith(b"# EOF\n"), opened.endswith(b"# EOF\n")) == (False, True)


def test_an_exemplar_has_the_request_id(metrics: GatewayMetrics) -> None:
    metrics.request_ended(RECORD, now=101.0)

    text, _ = metrics.exposition(OPEN)

    assert b'# {request_id="req-1"} 0.6' in text


def test_a_long_request_id_is_cut_in_an_exemplar(metrics: GatewayMetrics) -> None:
    metrics.request_ended(replace(RECORD, request_id=RequestId("x" * 128)), now=101.0)

    assert b'request_id="' + b"x" * 64 + b'"' in metrics.exposition(OPEN)[0]


def test_processes_are_added_up(tmp_path: Path) -> None:
    def child(*, up: int, show: bool) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", TWO_PROCESSES.format(up=up, show=show)],
            env={"PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PYTHONPATH": "."},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    with child(up=0, show=True) as first:
        assert first.stdout is not None
        first.stdout.readline()  # it has counted
        with child(up=1, show=True) as second:
            text, _ = second.communicate("\n", timeout=20)
        first.communicate("\n", timeout=20)

    assert 'gateway_requests_total{endpoint="/x",model="unknown",outcome="completed"} 2.0' in text
    assert "gateway_inflight_requests 6.0" in text
    assert "gateway_workers 0.0" in text
    assert 'gateway_worker_up{worker="w"} 0.0' in text
    assert 'worker="gone"' not in text
    assert 'gateway_worker_up{worker="back"} 0.0' in text
    assert 'gateway_upstream_failures_total{reason="lost",worker="back"} 2.0' in text
    assert 'gateway_inter_token_seconds_bucket{le="0.3",stage="client"} 6.0' in text
    assert 'gateway_inter_token_seconds_sum{stage="client"} 1.5' in text


def test_a_worker_that_joined_is_neither_up_nor_ejected(
    metrics: GatewayMetrics, registry: CollectorRegistry
) -> None:
    metrics.worker_joined(WorkerId("w"))
    values = [
        registry.get_sample_value(name, {"worker": "w", **more})
        for name, more in (
            ("gateway_worker_up", {}),
            ("gateway_worker_ejected", {}),
            ("gateway_worker_ejections_total", {"reason": "lost"}),
            ("gateway_worker_ejections_total", {"reason": "timeout"}),
            ("gateway_worker_ejections_total", {"reason": "bad_answer"}),
        )
    ]

    assert values == [0, 0, 0, 0, 0]


def test_a_readmitted_worker_is_not_ejected(
    metrics: GatewayMetrics, registry: CollectorRegistry
) -> None:
    metrics.worker_ejected(WorkerId("w"), "lost")
    metrics.worker_readmitted(WorkerId("w"))

    assert registry.get_sample_value("gateway_worker_ejected", {"worker": "w"}) == 0


def test_a_worker_that_left_has_no_series(
    metrics: GatewayMetrics, registry: CollectorRegistry
) -> None:
    for worker in (WorkerId("gone"), WorkerId("kept")):
        metrics.worker_joined(worker)
        metrics.worker_up(worker, True)
        metrics.worker_failed(worker, "lost")
        metrics.worker_failed(worker, "timeout")
        metrics.worker_ejected(worker, "lost")

    metrics.worker_left(WorkerId("gone"))

    named = [
        sample.labels["worker"]
        for family in registry.collect()
        for sample in family.samples
        if "worker" in sample.labels and not sample.name.endswith("_created")
    ]
    assert named == ["kept"] * 8
