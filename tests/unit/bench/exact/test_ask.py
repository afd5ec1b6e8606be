import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from bench.engine.worker import WorkerError
from bench.exact.ask import Start, ask_all, ask_plan
from bench.exact.plan import Pass, Plan, Serving
from bench.exact.records import Records, key_of
from tests.unit.bench.exact.example import body, prompt

HYBRID = Pass(Serving("bfloat16", "ours", "specgate"), "hybrid", 3)
HEAD = Pass(Serving("bfloat16", "ours", "specgate"), "head", 1)
NGRAM = Pass(Serving("bfloat16", "vllm", "ngram"), "ngram", 1)
REFERENCE = Pass(Serving("bfloat16", "ours", "none"), "none", 1)
PROMPTS = [prompt(number) for number in range(1, 6)]


class Fake:
    """A worker that answers every prompt alike."""

    model = "m"

    def __init__(self, answer: httpx.Response | None = None, failures: int = 0) -> None:
        self.bodies: list[dict[str, object]] = []
        self._answer = answer
        self._failures = failures

    async def send(self, method: str, path: str, body: object = None) -> httpx.Response:
        assert (method, path) == ("POST", "/v1/chat/completions")
        assert isinstance(body, dict)
        self.bodies.append(body)
        return self._answer or httpx.Response(200, text=answer())

    async def metrics(self) -> str:
        return f'engine_spec_fallbacks_total{{cause="x"}} {self._failures}.0\n'


def answer() -> str:
    return body([1, 2], steps=[2])


async def test_each_prompt_is_asked_twice_with_one_salt(tmp_path: Path) -> None:
    worker, records = Fake(), Records(tmp_path)

    await ask_all(worker, HYBRID, PROMPTS, records)

    salts = [sent["cache_salt"] for sent in worker.bodies]
    assert len(salts) == 10
    assert len(set(salts)) == 5
    found = records.load(HYBRID)
    assert set(found) == {key_of(one) for one in PROMPTS}
    assert all(len(answers) == 2 and answers[0].drafted == 2 for answers in found.values())


async def test_the_reference_is_asked_once(tmp_path: Path) -> None:
    worker, records = Fake(), Records(tmp_path)

    await ask_all(worker, REFERENCE, PROMPTS, records)

    assert len(worker.bodies) == 5
    assert all(sent["logprobs"] is True for sent in worker.bodies)
    assert not any("vllm_xargs" in sent for sent in worker.bodies)


async def test_a_specgate_is_told_who_drafts_and_a_peer_is_not(tmp_path: Path) -> None:
    ours, peer = Fake(), Fake()

    await ask_all(ours, HEAD, PROMPTS[:1], Records(tmp_path))
    await ask_all(peer, NGRAM, PROMPTS[:1], Records(tmp_path))

    wishes = {"specgate_mode": "head", "specgate_tenant": HEAD.name, "specgate_trace": 1}
    assert ours.bodies[0]["vllm_xargs"] == wishes
    assert "vllm_xargs" not in peer.bodies[0]


def plan(*passes: Pass, seconds: float = math.inf) -> Plan:
    return Plan(each=5, answer_tokens=8, passes=passes, seconds=seconds)


def starting(workers: Mapping[Serving, Fake], started: list[Serving]) -> Start:
    @asynccontextmanager
    async def start(serving: Serving) -> AsyncIterator[Fake]:
        started.append(serving)
        yield workers[serving]

    return start


async def test_a_worker_serves_all_its_passes_and_each_has_its_prompts(tmp_path: Path) -> None:
    some = replace(HEAD, every=2)
    workers = {REFERENCE.serving: Fake(), HYBRID.serving: Fake()}
    started: list[Serving] = []
    records = Records(tmp_path)

    failed = await ask_plan(
        plan(REFERENCE, HYBRID, some), PROMPTS, records, starting(workers, started)
    )

    assert failed == {}
    assert started == [REFERENCE.serving, HYBRID.serving]
    assert [len(records.load(one)) for one in (REFERENCE, HYBRID, some)] == [5, 5, 3]


async def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    await ask_all(Fake(), REFERENCE, PROMPTS, Records(tmp_path))
    await ask_all(Fake(), HYBRID, PROMPTS[:3], Records(tmp_path))
    later, started = Fake(), list[Serving]()

    start = starting({HYBRID.serving: later}, started)
    await ask_plan(plan(REFERENCE, HYBRID), PROMPTS, Records(tmp_path), start)

    asked = {json.dumps(sent["messages"]) for sent in later.bodies}
    assert asked == {json.dumps(one.body["messages"]) for one in PROMPTS[3:]}
    assert started == [HYBRID.serving]


async def test_a_worker_that_fails_does_not_keep_others_from_being_asked(tmp_path: Path) -> None:
    broken = Fake(httpx.Response(500, text="out of order"))
    workers = {NGRAM.serving: broken, HYBRID.serving: Fake()}
    records = Records(tmp_path)

    failed = await ask_plan(plan(NGRAM, HYBRID), PROMPTS, records, starting(workers, []))

    assert list(failed) == [NGRAM.serving.name]
    assert "out of order" in failed[NGRAM.serving.name]
    assert len(records.load(HYBRID)) == 5


async def test_no_worker_is_started_when_the_time_is_up(tmp_path: Path) -> None:
    started: list[Serving] = []

    await ask_plan(plan(HYBRID, seconds=-1.0), PROMPTS, Records(tmp_path), starting({}, started))

    assert started == []


async def test_a_worker_that_does_not_answer_ends_the_run(tmp_path: Path) -> None:
    broken = Fake(httpx.Response(500, text="out of order"))

    with pytest.raises(WorkerError, match=r"chat, prompt 1: .*out of order"):
        await ask_all(broken, HEAD, PROMPTS, Records(tmp_path))


async def test_failed_speculation_is_not_taken_for_exactness(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="speculation failed 2 times"):
        await ask_all(Fake(failures=2), HEAD, PROMPTS, Records(tmp_path))
