"""The real engine killed under load: what clients see, and that the service comes back.

Integration tests have the other faults (exit, freeze, failed health checks), with a fake worker.
"""

import threading
import time
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.e2e.service import MODEL, Service

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


PROMPT = "Once upon a time"
TOKENS = 300


class Streaming(threading.Thread):
    """Reads a long stream, greedy; keeps its text, and the error that ended it."""

    def __init__(self, service: Service, **fields: Any) -> None:
        super().__init__(daemon=True)
        self.text = ""
        self.chunks = 0
        self.error: Exception | None = None
        self._client = OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0)
        self._fields = {"ignore_eos": True, **fields}

    def run(self) -> None:
        try:
            for chunk in self._client.completions.create(
                model=MODEL,
                prompt=PROMPT,
                max_tokens=TOKENS,
                temperature=0,
                stream=True,
                extra_body=self._fields,
            ):
                self.chunks += 1
                self.text += "".join(choice.text for choice in chunk.choices)
        except Exception as error:  # noqa: BLE001  # whatever it is, the test judges it
            self.error = error

    def wait_for_chunks(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while self.chunks < count and time.monotonic() < deadline:
            time.sleep(0.02)
        assert self.chunks >= count


def ask(service: Service, prompt: str = "Hello", tokens: int = 4) -> str:
    with OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.completions.create(
            model=MODEL,
            prompt=prompt,
            max_tokens=tokens,
            temperature=0,
            extra_body={"ignore_eos": True},
        )
    return answer.choices[0].text


def test_a_killed_engine_costs_a_stream_of_text_only_a_pause(service: Service) -> None:
    service.wait_ready()
    restarts = service.restarts
    whole = ask(service, PROMPT, TOKENS)
    texts = [Streaming(service) for _ in range(2)]
    other = Streaming(service, return_token_ids=True)  # cannot go on (docs/adr/0048)
    for stream in (*texts, other):
        stream.start()
    for stream in (*texts, other):
        stream.wait_for_chunks(3)

    service.engine_core.kill()
    replayed = ask(service)  # arrives while there is no worker, waits, and is answered by the next

    for stream in (*texts, other):
        stream.join(120)
    assert replayed
    assert [stream.error for stream in texts] == [None, None]
    assert [stream.text for stream in texts] == [whole, whole]
    assert type(other.error) is openai.APIError
    assert service.restarts == restarts + 1
