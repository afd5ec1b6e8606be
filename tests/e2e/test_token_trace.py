"""`speculation.trace` through gateway and worker: every token of the answer has its origin."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.service import MODEL, Service

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CODE = "def add(first, second):\n    return first + second\n\n\n" * 3
ASKED = {"trace": True}
CHAT: dict[str, Any] = {
    "messages": [{"role": "user", "content": f"Repeat this:\n{CODE}"}],
    "max_tokens": 60,
    "temperature": 0,
}
CASES: dict[str, dict[str, Any]] = {
    "chat": CHAT,
    "smooth": {**CHAT, "pacing": "smooth"},
    "private": {**CHAT, "pacing": "private", "max_tokens": 20},
    "prediction": {**CHAT, "prediction": {"type": "content", "content": CODE}},
    "sampled": {**CHAT, "temperature": 0.7},
    "off": {**CHAT, "speculation": {**ASKED, "mode": "off"}},
    "completion": {"prompt": "🙂 🎉 你好,世界\n" * 8, "max_tokens": 60, "temperature": 0},
}


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=120) as client:
        yield client


def ask(client: httpx.Client, body: dict[str, Any]) -> httpx.Response:
    path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    answer = client.post(path, json={"model": MODEL, "speculation": ASKED, **body})
    assert answer.status_code == 200, answer.text
    return answer


def stream(client: httpx.Client, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The chunks of a stream; the last one has the usage."""
    options = {"stream": True, "stream_options": {"include_usage": True}}
    text = ask(client, {**body, **options}).text
    frames = [frame.removeprefix("data: ") for frame in text.split("\n\n")]
    return [httpx.Response(200, text=frame).json() for frame in frames if frame.startswith("{")]


def text_of(answer: dict[str, Any]) -> str:
    """The text of a chunk or of a whole answer."""
    parts = (choice.get("delta") or choice.get("message") or choice for choice in answer["choices"])
    return "".join(part.get("content") or part.get("text") or "" for part in parts)


def entries_of(answer: dict[str, Any]) -> list[tuple[str, int]]:
    return [(source, length) for source, length in answer.get("speculation", {}).get("trace", [])]


def check(entries: list[tuple[str, int]], text: str, last: dict[str, Any]) -> Counter[str]:
    """Hold a trace against the text and the counts of its answer; returns tokens by source."""
    by_source = Counter(source for source, _ in entries)
    found = (last["metrics"].get("speculative_decoding") or {}).get("sources", {})
    accepted = {name: count["accepted"] for name, count in found.items() if count["accepted"]}
    assert len(entries) == last["usage"]["completion_tokens"]
    assert sum(length for _, length in entries) == len(text)
    drafted = by_source - Counter(target=by_source["target"])
    drafted["suffix"] += drafted.pop("prediction", 0)
    assert +drafted == Counter(accepted)
    return by_source


@pytest.mark.parametrize("case", CASES)
def test_a_trace_agrees_with_text_and_metrics(case: str, client: httpx.Client) -> None:
    whole = ask(client, CASES[case]).json()
    chunks = stream(client, CASES[case])

    check(entries_of(whole), text_of(whole), whole)
    entries = [entry for chunk in chunks for entry in entries_of(chunk)]
    by_source = check(entries, "".join(map(text_of, chunks)), chunks[-1])
    assert (set(by_source) == {"target"}) is (case == "off")
    told = shown = 0
    for chunk in chunks:
        told += sum(length for _, length in entries_of(chunk))
        shown += len(text_of(chunk))
        assert shown <= told


def test_streams_at_once_are_kept_apart(client: httpx.Client) -> None:
    bodies = [{**CHAT, "max_tokens": 24 + number, "pacing": "smooth"} for number in range(6)]

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda body: stream(client, body), bodies))

    for chunks in answers:
        entries = [entry for chunk in chunks for entry in entries_of(chunk)]
        check(entries, "".join(map(text_of, chunks)), chunks[-1])


def test_the_sdk_hands_the_trace_on(service: Service) -> None:
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.chat.completions.create(
            model=MODEL, **CHAT, extra_body={"speculation": ASKED}
        )

    assert answer.usage is not None
    assert answer.model_extra is not None
    assert len(answer.model_extra["speculation"]["trace"]) == answer.usage.completion_tokens


def test_who_does_not_ask_gets_not_a_byte(client: httpx.Client) -> None:
    for fields in ({}, {"stream": True}, {"vllm_xargs": {"specgate_trace": 1}}):
        text = ask(client, {**CHAT, "speculation": None, "max_tokens": 20, **fields}).text

        assert '"speculation"' not in text
        assert '"trace"' not in text
