import pytest

from gateway.errors import WorkerLostError
from gateway.types import WorkerId
from gateway.upstream.prediction_tokenizer import PredictionTokenizer
from tests.fakes.state import Tokenizing
from tests.fakes.worker import FakeWorker
from tests.unit.gateway.json_log import json_log
from tests.unit.gateway.upstream.workers import make_worker

NAME = WorkerId("w")


async def tokenized(
    url: str, text: str, *, max_tokens: int = 100, timeout_seconds: float = 1.0
) -> tuple[int, ...]:
    worker = make_worker(NAME, url)
    tokenizer = PredictionTokenizer(max_tokens=max_tokens, timeout_seconds=timeout_seconds)
    try:
        return await tokenizer.tokenize(text, worker=worker, model="fake-model")
    finally:
        await worker.client.close()


async def test_text_becomes_ids(worker: FakeWorker) -> None:
    with json_log() as log:
        assert await tokenized(worker.url, "hé") == tuple("hé".encode())

    (asked,) = worker.tokenize_requests
    assert asked.json() == {"model": "fake-model", "prompt": "hé", "add_special_tokens": False}
    assert log.lines() == []
    assert await tokenized(worker.url, "") == await tokenized(worker.url, "x", max_tokens=0) == ()
    assert len(worker.tokenize_requests) == 1


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("x" * 10, None),
        ("x" * 11, {"characters": 11, "characters_read": 11, "tokens_read": 11, "tokens": 10}),
        ("x" * 500, {"characters": 500, "characters_read": 80, "tokens_read": 80, "tokens": 10}),
    ],
    ids=["just-fits", "too-many-tokens", "too-many-characters"],
)
async def test_a_long_prediction_is_cut_and_logged_once(
    worker: FakeWorker, text: str, facts: dict[str, int] | None
) -> None:
    with json_log() as log:
        tokens = await tokenized(worker.url, text, max_tokens=10)

    assert tokens == (ord("x"),) * 10
    lines = log.of("prediction_cut")
    assert len(lines) == (0 if facts is None else 1)
    assert (facts or {}).items() <= dict(*lines).items()
    assert "xx" not in log.text


FAILURES: dict[Tokenizing, str] = {
    "fails": "bad_answer",
    "garbled": "bad_answer",
    "odd": "bad_answer",
    "hangs": "timeout",
    "drops": "lost",
}


@pytest.mark.parametrize(("tokenizing", "reason"), FAILURES.items(), ids=FAILURES)
async def test_a_failure_drops_the_prediction_and_is_logged_once(
    worker: FakeWorker, tokenizing: Tokenizing, reason: str
) -> None:
    worker.state.tokenizing = tokenizing
    with json_log() as log:
        assert await tokenized(worker.url, "words", timeout_seconds=0.1) == ()

    (line,) = log.lines()
    assert (line["event"], line["level"]) == ("prediction_dropped", "warning")
    assert (line["worker"], line["reason"]) == (NAME, reason)
    assert "words" not in log.text


async def test_a_connection_closed_by_the_worker_is_no_failure(worker: FakeWorker) -> None:
    target = make_worker(NAME, worker.url)
    tokenizer = PredictionTokenizer(max_tokens=100, timeout_seconds=1.0)
    await tokenizer.tokenize("a", worker=target, model=None)
    await worker.stop()
    await worker.start()
    with json_log() as log:
        assert await tokenizer.tokenize("b", worker=target, model=None) == (98,)
    await target.client.close()

    assert log.lines() == []


async def test_a_worker_that_cannot_be_reached_is_lost() -> None:
    with json_log() as log, pytest.raises(WorkerLostError) as caught:
        await tokenized("http://127.0.0.1:1", "x")

    assert not caught.value.sent
    assert log.lines() == []
