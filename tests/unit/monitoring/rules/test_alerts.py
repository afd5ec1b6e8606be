import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway import errors
from monitoring.rules import ALERTS, Alert, with_defaults
from tests.unit.monitoring.rules.promtool import evaluate

ROOT = Path(__file__).parents[4]

WORKER = {"namespace": "n", "instance": "w"}
SUFFIX = {**WORKER, "source": "suffix"}
REQUEST = {"namespace": "n", "model": "m", "source": "suffix"}
STEPS = 'engine_spec_steps_total{namespace="n", instance="w", verdict="drafted"}'
RATIO, DRAFTS = "gateway_request_acceptance_ratio", "gateway_request_draft_tokens"


def named(metric: str, labels: dict[str, str], **more: str) -> str:
    """Return a series in promtool's notation."""
    inner = ", ".join(f'{name}="{value}"' for name, value in {**labels, **more}.items())
    return f"{metric}{{{inner}}}"


@dataclass(frozen=True)
class Case:
    """Series, and whether an alert fires.

    Attributes:
        alert: Its name.
        story: What happens.
        series: Values, one per minute.
        at: Time of the evaluation.
        labels: Labels of the firing alert, without its name and severity; None if it must not.
    """

    alert: str
    story: str
    series: dict[str, str]
    at: str
    labels: dict[str, str] | None = None


def _acceptance(story: str, drafted: str, accepted: str, *, fires: bool) -> Case:
    series = {
        named("engine_spec_draft_tokens_total", SUFFIX): drafted,
        named("engine_spec_accepted_tokens_total", SUFFIX): accepted,
    }
    labels = {"namespace": "n", "source": "suffix"}
    return Case("SpecgateAcceptanceCollapse", story, series, "235m", labels if fires else None)


def _perfect(story: str, *, within: int, tokens: int, fires: bool) -> Case:
    series = {
        named(f"{RATIO}_bucket", REQUEST, le="0.95"): f"0+{within}x90",
        named(f"{RATIO}_count", REQUEST): "0+10x90",
        named(f"{DRAFTS}_sum", REQUEST): f"0+{tokens * 10}x90",
        named(f"{DRAFTS}_count", REQUEST): "0+10x90",
    }
    return Case("SpecgateAcceptanceSuspicious", story, series, "60m", REQUEST if fires else None)


def _gate(story: str, gate: str, steps: str, *, fires: bool) -> Case:
    series = {named("engine_spec_gate_open", SUFFIX): gate, STEPS: steps}
    return Case("SpecgateGateStuck", story, series, "60m", SUFFIX if fires else None)


def _price(story: str, price: str, waiting: str, *, fires: bool) -> Case:
    series = {
        named("engine_spec_price", WORKER): price,
        named("vllm:num_requests_waiting", WORKER, engine="0"): waiting,
        STEPS: "0+100x90",
    }
    return Case("SpecgatePriceStuck", story, series, "60m", WORKER if fires else None)


def _fallbacks(story: str, values: str, *, at: str, fires: bool) -> Case:
    labels = {**WORKER, "reason": "SuffixCapacityError"}
    series = {named("engine_spec_fallbacks_total", labels): values}
    return Case("SpecgateSpeculationFallbacks", story, series, at, labels if fires else None)


def _defects(story: str, values: str, *, at: str, fires: bool) -> Case:
    labels = {"namespace": "n", "model": "m"}
    series = {named("gateway_canary_requests_total", labels, result="differs"): values}
    return Case("SpecgateCanaryDefect", story, series, at, labels if fires else None)


def _sampling(story: str, values: str, *, fires: bool) -> Case:
    series = {named("engine_sampling_evidence", WORKER): values}
    return Case("SpecgateSamplingBiased", story, series, "30m", WORKER if fires else None)


def _memory(story: str, used: int, evicted: int, *, fires: bool) -> Case:
    series = {
        named("engine_suffix_bytes", WORKER): f"{used}x120",
        named("engine_suffix_capacity_bytes", WORKER): "1000x120",
        named("engine_suffix_tokens", WORKER): "60000x120",
        named("engine_suffix_evictions_total", WORKER): f"0+{evicted}x120",
    }
    return Case("SpecgateSuffixMemoryFull", story, series, "120m", WORKER if fires else None)


def _up(alert: str, story: str, first: str, second: str, **labels: str) -> Case:
    series = {
        'gateway_worker_up{namespace="n", worker="a"}': first,
        'gateway_worker_up{namespace="n", worker="b"}': second,
    }
    return Case(alert, story, series, "20m", {"namespace": "n", **labels} if labels else None)


def _ejected(story: str, values: str, *, fires: bool) -> Case:
    labels = {"namespace": "n", "worker": "a"}
    series = {named("gateway_worker_ejected", labels): values}
    return Case("SpecgateWorkerEjected", story, series, "15m", labels if fires else None)


def _found(story: str, first: str, second: str, *, fires: bool) -> Case:
    series = {
        'gateway_workers{namespace="n", instance="g1"}': first,
        'gateway_workers{namespace="n", instance="g2"}': second,
    }
    return Case(
        "SpecgateNoWorkerFound", story, series, "20m", {"namespace": "n"} if fires else None
    )


def _progress(story: str, running: str, waiting: str, steps: str, *, fires: bool) -> Case:
    series = {
        named("vllm:num_requests_running", WORKER, engine="0"): running,
        named("vllm:num_requests_waiting", WORKER, engine="0"): waiting,
        named("vllm:iteration_tokens_total_count", WORKER, engine="0"): steps,
    }
    return Case("SpecgateWorkerNotProgressing", story, series, "10m", WORKER if fires else None)


def _restarts(story: str, values: str, *, fires: bool) -> Case:
    labels = {"namespace": "n", "worker": "local"}
    series = {named("gateway_worker_restarts_total", labels, reason="exited"): values}
    return Case("SpecgateWorkerRestarts", story, series, "20m", labels if fires else None)


def _resets(story: str, steps: str, *, fires: bool) -> Case:
    series = {named("vllm:iteration_tokens_total_count", WORKER, engine="0"): steps}
    labels = {**WORKER, "worker": "w"}
    return Case("SpecgateWorkerRestarts", story, series, "20m", labels if fires else None)


def _refused(story: str, reason: str, *, fires: bool) -> Case:
    series = {named("gateway_rejections_total", {"namespace": "n"}, reason=reason): "0+3x20"}
    return Case(
        "SpecgateQueueSaturated", story, series, "15m", {"namespace": "n"} if fires else None
    )


def _waiting(story: str, waiting: int, *, fires: bool) -> Case:
    series = {
        named("vllm:num_requests_waiting", WORKER, engine="0"): f"{waiting}x30",
        named("vllm:num_requests_running", WORKER, engine="0"): "4x30",
    }
    return Case("SpecgateWorkerQueueGrows", story, series, "20m", WORKER if fires else None)


def _failed(alert: str, story: str, failed: int, *, fires: bool) -> Case:
    labels = {"namespace": "n"}
    series = {
        named("gateway_requests_total", labels, outcome="completed"): "0+10000x120",
        named("gateway_requests_total", labels, outcome="internal_error"): f"0+{failed}x120",
    }
    return Case(alert, story, series, "100m", labels if fires else None)


def _slow(
    alert: str, story: str, histogram: str, labels: dict[str, str], slow: int, *, fires: bool
) -> Case:
    """`slow` of 1,000 observations a minute are above the bound."""
    bound = "2.0" if "first_token" in histogram else "0.1"
    kept = {name: value for name, value in labels.items() if name != "stage"}
    series = {
        named(f"{histogram}_bucket", labels, le=bound): f"0+{1000 - slow}x120",
        named(f"{histogram}_count", labels): "0+1000x120",
    }
    return Case(alert, story, series, "100m", kept if fires else None)


_TTFT = ("gateway_time_to_first_token_seconds", {"namespace": "n", "model": "m"})
_GAPS = ("gateway_inter_token_seconds", {"namespace": "n", "stage": "client"})

CASES = [
    _acceptance("from 80 % to 10 %", "0+600x240", "0+480x180 86460+60x60", fires=True),
    _acceptance("from 80 % to none", "0+600x240", "0+480x180 86400x60", fires=True),
    _acceptance("from 80 % to 60 %", "0+600x240", "0+480x180 86760+360x60", fires=False),
    _acceptance("too few drafts to judge", "0+30x240", "0+24x180 4323+3x60", fires=False),
    _perfect("long drafts, all accepted", within=2, tokens=300, fires=True),
    _perfect("short drafts, all accepted", within=2, tokens=20, fires=False),
    _perfect("long drafts, some rejected", within=8, tokens=300, fires=False),
    _gate("closed and busy", "0x90", "0+100x90", fires=True),
    _gate("open now and then", "0x9 1 0x9 1 0x9 1 0x9 1 0x9 1 0x9 1", "0+100x90", fires=False),
    _gate("closed and idle", "0x90", "500x90", fires=False),
    _price("nothing pays although no request waits", "1x90", "0x90", fires=True),
    _price("nothing pays because many wait", "1x90", "7x90", fires=False),
    _price("drafts pay", "0.3x90", "0x90", fires=False),
    _fallbacks("the first one ever", "_x20 1x40", at="22m", fires=True),
    _fallbacks("one more", "5x30 6x30", at="35m", fires=True),
    _fallbacks("long ago", "5x60", at="40m", fires=False),
    _defects("the first one ever", "_x20 1x40", at="22m", fires=True),
    _defects("one more", "0x80 1x10", at="85m", fires=True),
    _defects("none", "_x20 0x40", at="22m", fires=False),
    _defects("long ago", "1x160", at="150m", fires=False),
    _sampling("a biased sampler", "0x10 7x40", fires=True),
    _sampling("luck", "0x10 5.9x40", fires=False),
    _memory("full, and half of it evicted within an hour", 990, 600, fires=True),
    _memory("full, with few evictions", 990, 10, fires=False),
    _memory("half full", 500, 600, fires=False),
    _up("SpecgateNoWorker", "both are down", "0x30", "0x30", namespace="n"),
    _up("SpecgateNoWorker", "one is down", "0x30", "1x30"),
    _found("none, from the start", "0x30", "0x30", fires=True),
    _found("none left", "2x10 0x20", "2x9 0x21", fires=True),
    _found("one gateway has just started", "0x30", "2x30", fires=False),
    _up("SpecgateWorkerDown", "one is down", "0x30", "1x30", worker="a"),
    _up("SpecgateWorkerDown", "one was down for a moment", "1x10 0 1x20", "1x30"),
    _ejected("most of the time", "1 0 1 1 1x20", fires=True),
    _ejected("once, for two minutes", "0x10 1 1 0x10", fires=False),
    _up("SpecgateWorkerFlaps", "one is flapping", "1 0 1 0 1 0 1 0 1x20", "1x30", worker="a"),
    _up("SpecgateWorkerFlaps", "one was restarted", "1x5 0 1x20", "1x30"),
    _progress("running requests and no step", "3x20", "0x20", "100x20", fires=True),
    _progress("waiting requests and no step", "0x20", "2x20", "100x20", fires=True),
    _progress("requests and steps", "3x20", "0x20", "100+50x20", fires=False),
    _progress("idle", "0x20", "0x20", "100x20", fires=False),
    _restarts("four of them", "0x5 1 2 3 4x20", fires=True),
    _restarts("one", "0x5 1x30", fires=False),
    _resets("three, by Kubernetes", "9 9 2 5 1 7 0 3x20", fires=True),
    _resets("one, by Kubernetes", "9 9 2+5x20", fires=False),
    _refused("the queue is full", "queue_full", fires=True),
    _refused("a wait timed out", "queue_timeout", fires=True),
    _refused("a key is over its limit", "rate_limit", fires=False),
    _waiting("twice as many wait as run", 8, fires=True),
    _waiting("few wait", 2, fires=False),
    _failed("SpecgateFailuresBudgetBurnsFast", "5 % fail", 500, fires=True),
    _failed("SpecgateFailuresBudgetBurnsFast", "0.2 % fail", 20, fires=False),
    _failed("SpecgateFailuresBudgetBurnsSlowly", "0.2 % fail", 20, fires=True),
    _failed("SpecgateFailuresBudgetBurnsSlowly", "0.05 % fail", 5, fires=False),
    _slow("SpecgateTtftBudgetBurnsFast", "30 % late", *_TTFT, 300, fires=True),
    _slow("SpecgateTtftBudgetBurnsFast", "2 % late", *_TTFT, 20, fires=False),
    _slow("SpecgateTtftBudgetBurnsSlowly", "2 % late", *_TTFT, 20, fires=True),
    _slow("SpecgateTtftBudgetBurnsSlowly", "0.5 % late", *_TTFT, 5, fires=False),
    _slow("SpecgateTokenGapBudgetBurnsFast", "30 % late", *_GAPS, 300, fires=True),
    _slow("SpecgateTokenGapBudgetBurnsFast", "2 % late", *_GAPS, 20, fires=False),
    _slow("SpecgateTokenGapBudgetBurnsSlowly", "2 % late", *_GAPS, 20, fires=True),
    _slow("SpecgateTokenGapBudgetBurnsSlowly", "0.5 % late", *_GAPS, 5, fires=False),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}: {case.story}")
def test_an_alert_fires_when_it_should(tmp_path: Path, case: Case) -> None:
    (alert,) = [alert for alert in ALERTS if alert.name == case.alert]
    query = f'ALERTS{{alertname="{case.alert}", alertstate="firing"}}'
    expected = []
    if case.labels is not None:
        state = {"alertname": case.alert, "alertstate": "firing", "severity": alert.severity}
        expected = [{"labels": named("ALERTS", {**case.labels, **state}), "value": 1}]

    difference = evaluate(tmp_path, case.series, query, at=case.at, expected=expected)

    assert difference == ""


@pytest.mark.parametrize("fires", [True, False], ids=["fires", "stays silent"])
def test_every_alert_has_a_case_in_which_it(fires: bool) -> None:
    tested = {case.alert for case in CASES if (case.labels is not None) is fires}

    assert tested == {alert.name for alert in ALERTS}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_has_an_entry_in_the_runbook(alert: Alert) -> None:
    path, _, anchor = with_defaults(alert.runbook_url).partition("#")
    text = (ROOT / path).read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    assert anchor in anchors
    assert alert.name in text


def test_the_gateway_has_the_rejection_reasons_of_the_alerts() -> None:
    known = {getattr(error, "reason", None) for error in vars(errors).values()}
    named_in_alerts = {
        reason
        for alert in ALERTS
        for found in re.findall(r'reason=~"([^"]+)"', alert.expression)
        for reason in found.split("|")
    }

    assert named_in_alerts
    assert named_in_alerts <= known
