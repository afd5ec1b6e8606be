"""The canary on the real worker: everything is asked again, and nothing is delayed by it."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.service import MODEL, Service, running_service

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

CODE = "def add(first, second):\n    return first + second\n\n\n" * 3
CHAT: dict[str, Any] = {
    "messages": [{"role": "user", "content": f"Repeat this:\n{CODE}"}],
    "max_tokens": 60,
    "temperature": 0,
}
CASES: dict[str, dict[str, Any]] = {
    "chat": CHAT,
    "stream": {**CHAT, "stream": True},
    "smooth stream": {**CHAT, "stream": True, "pacing": "smooth"},
    "prediction": {**CHAT, "prediction": {"type": "content", "content": CODE}},
    "stop": {**CHAT, "stop": ["second"]},
    "penalty": {**CHAT, "frequency_penalty": 0.5},
    "schema": {
        **CHAT,
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "code",
                "schema": {"type": "object", "properties": {"code": {"type": "string"}}},
            },
        },
    },
    "completion": {
        "prompt": "One two three one two three " * 8,
        "max_tokens": 60,
        "temperature": 0,
    },
    "completion stream": {
        "prompt": "One two three one two three " * 8,
        "max_tokens": 40,
        "temperature": 0,
        "stream": True,
    },
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(
        tmp_path_factory.mktemp("canary"),
        engine={"vllm__enable_log_requests": "true"},
        canary__share="1",
        canary__most_time="1",
    ) as running:
        yield running


def ask(service: Service, body: dict[str, Any]) -> httpx.Response:
    path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    answer = httpx.post(service.url + path, json={"model": MODEL, **body}, timeout=120)
    assert answer.status_code == 200, answer.text
    assert '"token_ids":[' not in answer.text
    assert '"trace"' not in answer.text
    return answer


def results(service: Service) -> dict[str, float]:
    """Requests by result, and skipped ones by reason."""
    page = httpx.get(f"{service.url}/metrics", timeout=10).text
    return {
        sample.labels.get("result") or sample.labels["reason"]: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name in ("gateway_canary_requests_total", "gateway_canary_skipped_total")
    }


def wait_for(service: Service, count: float) -> dict[str, float]:
    """Wait until so many requests were compared or skipped."""
    deadline = time.monotonic() + 120
    while sum((found := results(service)).values()) < count:
        assert time.monotonic() < deadline, service.last_lines()
        time.sleep(0.2)
    return found


def test_every_answer_is_the_same_without_drafts(service: Service) -> None:
    before = sum(results(service).values())
    for body in CASES.values():
        ask(service, body)

    found = wait_for(service, before + len(CASES))

    assert {name: count for name, count in found.items() if count} == {"same": len(CASES)}
    log = service.log.read_text(encoding="utf-8", errors="replace")
    assert "canary-" in log
    assert "Received request chatcmpl-canary-" in log


def test_a_request_is_not_delayed_by_an_asking(service: Service) -> None:
    short = {**CHAT, "max_tokens": 4, "speculation": {"canary": False}}
    ask(service, short)
    before = sum(results(service).values())
    began = time.monotonic()
    ask(service, {**CHAT, "max_tokens": 400, "ignore_eos": True})
    long_seconds = time.monotonic() - began
    deadline = began + 120
    while not service.worker_metric("vllm:num_requests_running"):
        assert time.monotonic() < deadline, service.last_lines()
        time.sleep(0.05)

    began = time.monotonic()
    ask(service, short)
    seconds = time.monotonic() - began

    assert sum(results(service).values()) == before, "the asking was over already"
    assert seconds < long_seconds
    assert wait_for(service, before + 1)["same"] > 0
