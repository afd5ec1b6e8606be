from collections.abc import AsyncIterator

import pytest

from gateway.errors import WorkerLostError
from gateway.types import WorkerId
from gateway.upstream import (
    Breaker,
    ConnectionTimeouts,
    Worker,
    WorkerAddress,
    WorkerClient,
)
from gateway.upstream.prediction_tokenizer import PredictionTokenizer
from tests.fakes.state import Tokenizing
from tests.fakes.worker import FakeWorker
from tests.unit.gateway.canned_server import CannedServer, ok
from tests.unit.gateway.json_log import json_log

NAME = WorkerId("w")


@pytest.fixture
async def fake() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as started:
        yield started


def worker_at(url: str) -> Worker:
    connection = WorkerClient(WorkerAddress(NAME, url), ConnectionTimeouts(1, 1), api_key=None)
    return Worker(NAME, connection, Breaker(threshold=2, open_seconds=1, max_open_seconds=4))


async def tokenized(
    url: str, text: str, *, max_tokens: int = 100, timeout_seconds: float = 1.0
) -> tuple[int, ...]:
    worker = worker_at(url)
    tokenizer = PredictionTokenizer(max_tokens=max_tokens, timeout_seconds=timeout_seconds)
    try:
        return await tokenizer.tokenize(text, worker=worker, model="fake-model")
    finally:
        await worker.client.close()


async def test_a_text_becomes_its_ids(fake: FakeWorker) -> None:
    with json_log() as log:
        assert await tokenized(fake.url, "hé") == tuple("hé".encode())

    (asked,) = fake.tokenize_requests
    assert asked.json() == {"model": "fake-model", "prompt": "hé", "add_special_tokens": False}
    assert log.lines() == []


@pytest.mark.parametrize("text", ["", "x"], ids=["no-text", "no-tokens-wanted"])
async def test_nothing_is_asked_for_nothing(fake: FakeWorker, text: str) -> None:
    assert await tokenized(fake.url, text, max_tokens=0) == ()

    assert fake.tokenize_requests == []


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("x" * 10, None),
        ("x" * 11, {"characters": 11, "characters_read": 11, "tokens_read": 11, "tokens": 10}),
        ("x" * 500, {"characters": 500, "characters_read": 80, "tokens_read": 80, "tokens": 10}),
    ],
    ids=["just-fits", "too-many-tokens", "too-many-characters"],
)
async def test_a_long_prediction_is_cut_with_one_line(
    fake: FakeWorker, text: str, facts: dict[str, int] | None
) -> None:
    with json_log() as log:
        tokens = await tokenized(fake.url, text, max_tokens=10)

    assert tokens == (ord("x"),) * 10
    lines = log.of("prediction_cut")
    assert len(lines) == (0 if facts is None else 1)
    assert (facts or {}).items() <= dict(*lines).items()
    assert "xx" not in log.text


async def test_a_cut_that_leaves_few_tokens_is_told_too() -> None:
    async with CannedServer(ok(b'{"tokens":[1]}')) as server:
        with json_log() as log:
            assert await tokenized(server.url, "x" * 81, max_tokens=10) == (1,)

    assert log.of("prediction_cut")[0]["characters_read"] == 80


FAILURES: dict[Tokenizing, str] = {
    "fails": "bad_answer",
    "garbled": "bad_answer",
    "odd": "bad_answer",
    "hangs": "timeout",
    "drops": "lost",
}


@pytest.mark.parametrize(("tokenizing", "reason"), FAILURES.items(), ids=FAILURES)
async def test_a_failure_costs_the_prediction_and_one_line(
    fake: FakeWorker, tokenizing: Tokenizing, reason: str
) -> None:
    fake.state.tokenizing = tokenizing
    with json_log() as log:
        assert await tokenized(fake.url, "words", timeout_seconds=0.1) == ()

    (line,) = log.lines()
    assert (line["event"], line["level"]) == ("prediction_dropped", "warning")
    assert (line["worker"], line["reason"]) == (NAME, reason)
    assert "words" not in log.text


@pytest.mark.parametrize(
    "answer",
    [ok(b"[1]"), ok(b"[" * 50_000), b"oops", b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", b""],
    ids=["array", "deep", "no-http", "404", "nothing"],
)
async def test_whatever_a_worker_answers_is_no_failure_of_ours(answer: bytes) -> None:
    async with CannedServer(answer) as server:
        with json_log() as log:
            assert await tokenized(server.url, "x") == ()

    assert len(log.of("prediction_dropped")) == 1


async def test_a_connection_that_the_worker_had_closed_is_no_failure(fake: FakeWorker) -> None:
    worker = worker_at(fake.url)
    tokenizer = PredictionTokenizer(max_tokens=100, timeout_seconds=1.0)
    await tokenizer.tokenize("a", worker=worker, model=None)
    await fake.stop()
    await fake.start()
    with json_log() as log:
        assert await tokenizer.tokenize("b", worker=worker, model=None) == (98,)
    await worker.client.close()

    assert log.lines() == []


async def test_a_worker_that_is_not_there_is_passed_by_as_for_any_request() -> None:
    with json_log() as log, pytest.raises(WorkerLostError) as caught:
        await tokenized("http://127.0.0.1:1", "x")

    assert not caught.value.sent
    assert log.lines() == []
