"""Pages of `GET /live`, for the tests of `specgate top`."""

from typing import Any

from gateway.cli.live_page import Page

VERDICT = "Drafts: 61 % of 3,480 tokens were accepted in the last minute."


def raw_page(**changed: Any) -> dict[str, Any]:
    """Three intervals of a gateway with one worker."""
    series: dict[str, Any] = {
        "tokens_per_second": [96.4, 101.2, 88.0],
        "requests_per_second": [0.4, 0.6, 0.4],
        "active": [2, 2, 2],
        "queue": [0, 0, 1],
        "ttft_p50": [0.075, None, 0.081],
        "ttft_p99": [0.099, None, 1.25],
        "gap_raw_p50": [0.0006, 0.0008, 0.0007],
        "gap_raw_p99": [0.031, 0.028, 0.035],
        "gap_paced_p50": [0.0098, 0.0102, None],
        "gap_paced_p99": [0.018, 0.019, None],
        "price": [0.42, 0.39, None],
        "drafted_per_second": {"suffix": [60.0, 50.0, 40.0], "head": [30.0, 28.4, 0.0]},
        "acceptance": {"suffix": [0.6, 0.5, 0.7], "head": [0.5, 0.5, None]},
    }
    return {
        "now": 1795878421.4,
        "every_seconds": 5.0,
        "version": "0.2.0",
        "times": [1795878410.0, 1795878415.0, 1795878420.0],
        "series": series,
        "gaps": {"bounds_seconds": [0.001], "raw": [1, 2], "paced": [1, 2]},
        "workers": [raw_worker()],
        "links": {"dashboards": None, "runbook": "https://runbook"},
        **changed,
    }


def raw_worker(**changed: Any) -> dict[str, Any]:
    """A supervised worker that drafts."""
    return {
        "worker": "local",
        "up": True,
        "ejected": False,
        "ejections": 0,
        "in_flight": 2,
        "models": ["smollm2-135m"],
        "supervisor": {"state": "ready", "pid": 7, "restarts": 0, "last_reason": None},
        "error": None,
        "reported": 1795878420.0,
        "engines": [raw_engine()],
        **changed,
    }


def raw_engine(**changed: Any) -> dict[str, Any]:
    """An engine with a head, and a source that is off."""
    off = {"drafted_per_second": None, "acceptance": None}
    return {
        "engine": 0,
        "price": 0.44,
        "trust": 1.0,
        "goodput_tokens_per_second": 310.4,
        "measured_over_expected": 1.0,
        "step_ms": [[1, 14.2], [2, 14.9]],
        "pass_ms": None,
        "verification_ms": None,
        "decisions": {"drafted": 3},
        "launch": None,
        "sources": [
            {
                "name": "suffix",
                "state": "drafting",
                "verdict": VERDICT,
                "drafted_per_second": 58.0,
                "acceptance": 0.61,
            },
            {"name": "native", "state": "off", "verdict": "Off: not listed.", **off},
        ],
        "head": {"version": "0a1b2c3d4e5f", "name": "shipped"},
        "trial": None,
        **changed,
    }


def page(**changed: Any) -> Page:
    """The same, read."""
    return Page.model_validate(raw_page(**changed))
