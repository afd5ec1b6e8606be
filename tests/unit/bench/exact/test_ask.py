import json
from pathlib import Path

import httpx
import pytest

from bench.engine.worker import WorkerError
from bench.exact.ask import ask_all
from bench.exact.plan import Pass, Serving
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

    wishes = {"specgate_mode": "head", "specgate_tenant": HEAD.name}
    assert ours.bodies[0]["vllm_xargs"] == wishes
    assert "vllm_xargs" not in peer.bodies[0]


async def test_an_interrupted_pass_goes_on(tmp_path: Path) -> None:
    await ask_all(Fake(), HYBRID, PROMPTS[:3], Records(tmp_path))
    later = Fake()

    await ask_all(later, HYBRID, PROMPTS, Records(tmp_path))

    asked = {json.dumps(sent["messages"]) for sent in later.bodies}
    assert asked == {json.dumps(one.body["messages"]) for one in PROMPTS[3:]}


async def test_a_worker_that_does_not_answer_ends_the_run(tmp_path: Path) -> None:
    broken = Fake(httpx.Response(500, text="out of order"))

    with pytest.raises(WorkerError, match=r"chat, prompt 1: .*out of order"):
        await ask_all(broken, HEAD, PROMPTS, Records(tmp_path))


async def test_failed_speculation_is_not_taken_for_exactness(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="speculation failed 2 times"):
        await ask_all(Fake(failures=2), HEAD, PROMPTS, Records(tmp_path))
