"""The real worker killed and its engine frozen under load: what clients see, and the way back."""

import threading
import time
from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI

from tests.e2e.service import MODEL, Service, running_service

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(
        tmp_path_factory.mktemp("fragile"),
        supervisor__check_seconds="0.5",
        supervisor__stalled_seconds="12",
        drain__finish_seconds="2",  # the last test leaves long streams behind
    ) as running:
        yield running


class Streaming(threading.Thread):
    """A client that reads a long stream and remembers how it ended."""

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


@pytest.mark.parametrize("victim", ["worker", "engine_core"])
def test_killed_worker_ends_streams_with_an_error_and_replays_the_rest(
    fragile: Service, victim: str
) -> None:
    fragile.wait_ready()
    restarts = fragile.restarts
    streams = [Streaming(fragile) for _ in range(3)]
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.wait_for_chunks(3)

    getattr(fragile, victim).kill()
    replayed = ask(fragile)  # arrives while there is no worker, waits, and is answered by the next

    for stream in streams:
        stream.join(20)
    assert replayed
    assert all(type(stream.error) is openai.APIError for stream in streams)
    assert fragile.restarts == restarts + 1


def test_frozen_engine_is_found_by_its_lack_of_progress(fragile: Service) -> None:
    fragile.wait_ready()
    restarts = fragile.restarts
    stream = Streaming(fragile)
    stream.start()
    stream.wait_for_chunks(3)

    fragile.engine_core.suspend()
    stream.join(60)
    answered = ask(fragile)

    assert type(stream.error) is openai.APIError
    assert answered
    assert fragile.restarts == restarts + 1
    assert fragile.get("/health/workers")["workers"][0]["supervisor"]["last_reason"] == "stalled"


def test_busy_worker_is_not_restarted(fragile: Service) -> None:
    fragile.wait_ready()
    restarts = fragile.restarts
    streams = [Streaming(fragile) for _ in range(8)]
    for stream in streams:
        stream.start()

    time.sleep(15)  # longer than the patience for a worker that makes no progress
    for stream in streams:
        stream.wait_for_chunks(3)

    assert fragile.restarts == restarts
    assert all(stream.error is None for stream in streams)
