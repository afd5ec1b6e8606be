"""Traffic that produces every series of the dashboards and alerts."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.exactness.probe import EXTENSION
from tests.e2e.exactness.prompts import make_prose
from tests.e2e.service import MODEL, Service

RUNNING, QUEUED, SEQUENCES = 6, 3, 4
"""Slots of the gateway, length of its queue, and sequences of the worker; few, to fill them."""

SETTINGS = {
    "admission__max_running_requests": str(RUNNING),
    "admission__max_queued_requests": str(QUEUED),
    "canary__share": "1",  # `most_time` keeps it from being asked much
}
ENGINE_SETTINGS = {
    "vllm__max_num_seqs": str(SEQUENCES),
    # The minimum, so that it fills up; without the text of earlier runs.
    "speculation__suffix__capacity_mb": "1",
    "speculation__suffix__warm_start": "false",
    "vllm__worker_extension_cls": EXTENSION,
    "environment__vllm_server_dev_mode": "1",  # for /collective_rpc
}
_ANSWER_SECONDS = 60


@dataclass(frozen=True)
class Keys:
    """Keys of two tenants, the second with private pacing, and one with a low rate limit."""

    file: Path
    acme: str
    globex: str
    limited: str


def create_keys(folder: Path) -> Keys:
    """Create the keys with `specgate keys create`."""
    file = folder / "keys.jsonl"

    def create(tenant: str, *options: str) -> str:
        command = Path(sys.executable).with_name("specgate")
        done = subprocess.run(
            [command, "keys", "create", "--tenant", tenant, "--file", file, *options],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    return Keys(
        file,
        acme=create("acme"),
        globex=create("globex", "--pacing", "private"),
        limited=create("limited", "--requests-per-minute", "1"),
    )


@dataclass
class Clients:
    """Clients of a service.

    Attributes:
        request_ids: IDs of the answered requests.
    """

    service: Service
    keys: Keys
    http: httpx.Client
    request_ids: set[str] = field(default_factory=set)

    def repeat_themselves(self) -> None:
        """Repetitive text: unstreamed, streamed smoothly, and streamed without pacing."""
        prompt = "one two three four " * 60
        self._complete(prompt, max_tokens=64)
        self._complete(prompt, max_tokens=96, stream=True)
        self._complete(prompt, max_tokens=64, stream=True, pacing="off")

    def chat(self) -> None:
        """One question per tenant."""
        for key in (self.keys.acme, self.keys.globex):
            self._ask(
                "/v1/chat/completions",
                {
                    "messages": [{"role": "user", "content": "List three facts about rivers."}],
                    "max_tokens": 60,
                    "stream": True,
                },
                key=key,
            )

    def invent(self, *, seed: int = 0) -> None:
        """Text that is hard to predict."""
        (prompt,) = make_prose(1, seed=seed)
        self._complete(prompt, max_tokens=48, stream=True, temperature=1.0)

    def predict(self) -> None:
        """An edit with a prediction of most of its result."""
        text = "def area(width, height):\n    return width * height\n" * 3
        self._complete(text, max_tokens=48, prediction={"type": "content", "content": text})

    def leave(self) -> None:
        """A client that disconnects in the middle of its stream."""
        with self._endless_stream() as answer:
            next(answer.iter_lines())

    def be_refused(self) -> None:
        """An unknown model, an unknown key, an invalid body, and a key over its limit."""
        model = {"model": "unknown", "prompt": "a", "max_tokens": 1}
        small = {"model": MODEL, "prompt": "a", "max_tokens": 1}
        statuses = [
            self._post("/v1/completions", model, self.keys.acme).status_code,
            self._post("/v1/completions", small, "unknown").status_code,
            self._post("/v1/completions", {"model": MODEL}, self.keys.acme).status_code,
        ]
        statuses += [
            self._post("/v1/completions", small, self.keys.limited).status_code for _ in range(2)
        ]
        assert statuses[:2] == [404, 401]
        assert statuses[2] in {400, 422}
        assert statuses[-1] == 429

    def crowd(self) -> None:
        """More requests than slots and queue can hold; some get 503."""
        many = RUNNING + QUEUED + 3
        prompts = make_prose(many, seed=7)
        body = {"max_tokens": 80, "ignore_eos": True, "stream": True}

        def ask(prompt: str) -> int:
            asked = {"model": MODEL, "prompt": prompt, **body}
            return self._post("/v1/completions", asked, self.keys.acme).status_code

        with ThreadPoolExecutor(many) as pool:
            statuses = list(pool.map(ask, prompts))
        assert set(statuses) == {200, 503}

    def see_speculation_fail(self) -> None:
        """Speculation fails in every step for a while; requests do not."""
        self.service.ask_worker("/collective_rpc", _call("specgate_break", "price", "1"))
        self._complete("one two three four " * 20, max_tokens=32)
        self.service.ask_worker("/collective_rpc", _call("specgate_mend", "price"))

    def lose_the_worker(self) -> None:
        """Kill the worker's engine under a stream, which ends with an error event."""
        with self._endless_stream(return_token_ids=True) as answer:  # cannot go on elsewhere
            lines = answer.iter_lines()
            next(lines)
            self.service.engine_core.kill()
            rest = "".join(lines)
        assert '"error"' in rest

    def _endless_stream(self, **fields: Any) -> AbstractContextManager[httpx.Response]:
        asked = {"model": MODEL, "prompt": "a", "max_tokens": 6000, "ignore_eos": True, **fields}
        return self.http.stream(
            "POST",
            f"{self.service.url}/v1/completions",
            json={**asked, "stream": True},
            headers=self._headers(self.keys.acme),
            timeout=_ANSWER_SECONDS,
        )

    def _complete(self, prompt: str, **fields: Any) -> None:
        self._ask("/v1/completions", {"prompt": prompt, **fields}, key=self.keys.acme)

    def _ask(self, path: str, fields: dict[str, Any], *, key: str) -> None:
        answer = self._post(path, {"model": MODEL, "temperature": 0, **fields}, key)
        assert answer.status_code == 200, answer.text
        self.request_ids.add(answer.headers["x-request-id"])

    def _post(self, path: str, body: dict[str, Any], key: str) -> httpx.Response:
        return self.http.post(
            f"{self.service.url}{path}",
            json=body,
            headers=self._headers(key),
            timeout=_ANSWER_SECONDS,
        )

    def _headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}


def _call(method: str, *arguments: str) -> dict[str, Any]:
    return {"method": method, "args": arguments}


def everything_once(clients: Clients) -> None:
    """Send every kind of traffic once, without losing the worker."""
    with ThreadPoolExecutor(3) as pool:
        for done in [
            pool.submit(clients.repeat_themselves),
            pool.submit(clients.chat),
            pool.submit(clients.invent),
        ]:
            done.result()
    clients.predict()
    clients.leave()
    clients.be_refused()
    clients.crowd()
    clients.see_speculation_fail()


def everything_for(clients: Clients, *, seconds: float) -> None:
    """Send changing traffic: predictable text, unpredictable text, and occasional crowds."""
    began = time.monotonic()
    turn = 0
    while (passed := time.monotonic() - began) < seconds:
        turn += 1
        with ThreadPoolExecutor(3) as pool:
            steps = [pool.submit(clients.chat), pool.submit(clients.predict)]
            if passed < seconds / 3 or passed > seconds * 2 / 3:
                steps.append(pool.submit(clients.repeat_themselves))
            else:
                steps += [pool.submit(clients.invent, seed=turn * 4 + part) for part in range(4)]
            for step in steps:
                step.result()
        if turn % 3 == 0:
            clients.leave()
            clients.crowd()
            clients.be_refused()
