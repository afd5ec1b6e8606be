"""The real service beyond the SDKs: other endpoints, aborts, metrics, the access line."""

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import anthropic
import httpx
import pytest
from anthropic.types import TextBlock

from tests.e2e.service import MODEL, SPECGATE, Service

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_tokenize_and_detokenize_are_inverse(service: Service) -> None:
    text = "Numbers: 2026, and Grüße!"

    tokens = httpx.post(f"{service.url}/tokenize", json={"model": MODEL, "prompt": text}).json()
    back = httpx.post(
        f"{service.url}/detokenize", json={"model": MODEL, "tokens": tokens["tokens"]}
    ).json()

    assert back["prompt"] == text


def test_anthropic_sdk_whole_and_streamed(service: Service) -> None:
    with anthropic.Anthropic(base_url=service.url, api_key="none", max_retries=0) as client:
        asked = [{"role": "user", "content": "Say hello."}]
        whole = client.messages.create(model=MODEL, max_tokens=8, messages=asked)
        with client.messages.stream(model=MODEL, max_tokens=8, messages=asked) as stream:
            text = "".join(stream.text_stream)
        with pytest.raises(anthropic.NotFoundError):
            client.messages.create(model="nobody", max_tokens=8, messages=asked)

    assert isinstance(whole.content[0], TextBlock)
    assert whole.content[0].text
    assert text


@pytest.mark.parametrize(
    "fields",
    [{"stream": True}, {}, {"stream": True, "speculation": {"trace": True}}],
    ids=["streaming", "whole", "traced"],
)
def test_abort_frees_the_worker_within_a_second(service: Service, fields: dict[str, Any]) -> None:
    body = {"model": MODEL, "prompt": "a", "max_tokens": 6000, "ignore_eos": True, **fields}
    with begun(service, body):
        wait_for_running(service, 1, seconds=10)

    took = wait_for_running(service, 0, seconds=5)
    assert took < 1.0


@contextmanager
def begun(service: Service, body: dict[str, object]) -> Iterator[None]:
    """A request whose client hangs up at the end of the block, whatever came back by then."""
    url = urlsplit(service.url)
    assert url.hostname is not None
    data = json.dumps(body).encode()
    with socket.create_connection((url.hostname, url.port), timeout=10) as connection:
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nhost: test\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data)
        )
        yield


def wait_for_running(service: Service, count: int, *, seconds: float) -> float:
    """Wait until the worker's engine runs `count` requests; returns how long that took."""
    began = time.monotonic()
    while service.worker_metric("vllm:num_requests_running") != count:
        assert time.monotonic() - began < seconds, service.last_lines()
        time.sleep(0.05)
    return time.monotonic() - began


def test_acceptance_reaches_histogram_exemplar_and_access_line(service: Service) -> None:
    prompt = "x y z " * 40
    answer = httpx.post(
        f"{service.url}/v1/completions",
        json={"model": MODEL, "prompt": prompt, "max_tokens": 24, "temperature": 0},
        headers={"x-request-id": "e2e-acceptance"},
        timeout=60,
    )
    page = httpx.get(
        f"{service.url}/metrics", headers={"accept": "application/openmetrics-text"}
    ).text

    log = service.log.read_text(encoding="utf-8", errors="replace")
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    (line,) = [line for line in lines if line.get("request_id") == "e2e-acceptance"]
    found = answer.json()["metrics"]["speculative_decoding"]
    assert answer.headers["x-request-id"] == "e2e-acceptance"
    assert line["drafted"] == found["num_draft_tokens"] > 0
    assert line["accepted"] == found["num_accepted_draft_tokens"]
    assert line["tokens_out"] == 24
    assert "gateway_request_acceptance_ratio_bucket" in page
    assert '# {request_id="' in page


def test_stream_equals_what_the_worker_sends_to_one_who_asks_for_nothing(service: Service) -> None:
    body: dict[str, object] = {"model": MODEL, "prompt": "one two three one two", "max_tokens": 9}
    # Sampled with a seed nothing is drafted, so that a token is a chunk whoever asks.
    body |= {"stream": True, "seed": 1, "temperature": 0.7}
    command = service.worker.cmdline()
    transport = httpx.HTTPTransport(uds=command[command.index("--uds") + 1])
    with httpx.Client(transport=transport, timeout=60) as direct:
        direct.post("http://worker/v1/completions", json=body)
        expected = direct.post("http://worker/v1/completions", json=body).text

    unpaced = {"x-pacing": "off"}
    got = httpx.post(f"{service.url}/v1/completions", json=body, headers=unpaced, timeout=60).text

    assert normalised(got) == normalised(expected)


def normalised(stream: str) -> list[object]:
    """Chunks without what differs between two requests."""
    chunks = [frame.removeprefix("data: ") for frame in stream.strip().split("\n\n")]
    parsed = [json.loads(chunk) for chunk in chunks[:-1]]
    for chunk in parsed:
        del chunk["id"], chunk["created"]
    return [*parsed, chunks[-1]]


def test_live_and_top_show_the_load_and_why_each_source_drafts_or_not(service: Service) -> None:
    body = {"model": MODEL, "prompt": "one two three " * 20, "max_tokens": 64, "temperature": 0}
    deadline = time.monotonic() + 90
    while True:
        httpx.post(
            f"{service.url}/v1/completions", json={**body, "stream": True}, timeout=60
        ).raise_for_status()
        page = service.get("/live")
        shares = page["series"]["acceptance"].get("suffix", [])
        # The worker may have been restarted just now, and the history may be older than that.
        if page["workers"][0]["error"] is None and shares and shares[-1] is not None:
            break
        assert time.monotonic() < deadline, page
    printed = subprocess.run(
        [SPECGATE, "top", "--once", "--url", service.url],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout

    (worker,) = page["workers"]
    (engine,) = worker["engines"]
    sources = {source["name"]: source for source in engine["sources"]}
    series = page["series"]
    assert worker["supervisor"]["pid"] == service.worker.pid
    assert (worker["up"], worker["error"]) == (True, None)
    assert any(tokens > 0 for tokens in series["tokens_per_second"])
    assert any(gap is not None for gap in series["gap_raw_p99"])
    assert any(gap is not None for gap in series["gap_paced_p50"])
    assert any(seconds is not None for seconds in series["ttft_p50"])
    assert 0 < engine["price"] <= 1
    assert engine["step_ms"]
    assert sum(engine["decisions"].values()) > 0
    assert sources["suffix"]["state"] == "drafting"
    assert sources["suffix"]["acceptance"] > 0
    assert sources["native"]["verdict"] == "Off: not listed in engine.speculation.sources."
    assert "  suffix  Drafts: " in printed  # its figures may be those of a later sample
    assert "  native  Off: not listed in engine.speculation.sources." in printed


def test_sampled_tokens_are_tested(service: Service) -> None:
    """One place in one of eight steps that sample and verify; there is no evidence of a defect."""
    before = service.worker_metric("engine_sampling_checks_total")
    body = {
        "model": MODEL,
        "prompt": "one two three four one two three four one two three",
        "max_tokens": 300,
        "temperature": 0.7,
        "ignore_eos": True,
    }
    httpx.post(f"{service.url}/v1/completions", json=body, timeout=120).raise_for_status()
    deadline = time.monotonic() + 10  # the worker publishes once a second
    while service.worker_metric("engine_sampling_checks_total") == before:
        assert time.monotonic() < deadline
        time.sleep(0.2)

    assert service.worker_metric("engine_sampling_evidence") < 6.0
    (engine,) = service.get("/speculation")["workers"][0]["engines"]
    assert engine["sampling"]["checked"] == sum(engine["sampling"]["tenths"]) > before
