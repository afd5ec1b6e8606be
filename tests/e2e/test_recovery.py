"""The real engine killed under load: what clients see, and that the service comes back.

Integration tests have the other faults (exit, freeze, failed health checks), with a fake worker.
"""

import threading
import time

import openai
import pytest
from openai import OpenAI

from tests.e2e.service import MODEL, Service

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


class Streaming(threading.Thread):
    """Reads a long stream and keeps the error that ended it."""

    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self.chunks = 0
        self.error: Exception | None = None
        self._client = OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0)

    def run(self) -> None:
        try:
            for _ in self._client.completions.create(
                model=MODEL,
                prompt="Once upon a time",
                max_tokens=2000,
                stream=True,
                extra_body={"ignore_eos": True},
            ):
                self.chunks += 1
        except Exception as error:  # noqa: BLE001  # whatever it is, the test judges it
            self.error = error

    def wait_for_chunks(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while self.chunks < count and time.monotonic() < deadline:
            time.sleep(0.02)
        assert self.chunks >= count


def ask(service: Service) -> str:
    with OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.completions.create(model=MODEL, prompt="Hello", max_tokens=4)
    return answer.choices[0].text


def test_a_killed_engine_ends_streams_with_an_error_and_replays_the_rest(service: Service) -> None:
    service.wait_ready()
    restarts = service.restarts
    streams = [Streaming(service) for _ in range(3)]
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.wait_for_chunks(3)

    service.engine_core.kill()
    replayed = ask(service)  # arrives while there is no worker, waits, and is answered by the next

    for stream in streams:
        stream.join(20)
    assert replayed
    assert all(type(stream.error) is openai.APIError for stream in streams)
    assert service.restarts == restarts + 1
