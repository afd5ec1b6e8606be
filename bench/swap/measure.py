"""A client that streams all the time, and the phases in which the pieces of its answers came."""

import json
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bench.swap.report import LOADING, QUIET, TRIAL
from loadtest.progress import say

_ANSWER_TOKENS = 400
_ANSWER_SECONDS = 120.0
_LOAD_SECONDS = 120.0
_POLL_SECONDS = 0.5
_PROMPT = "Write a long story about the number {number}."


class SwapError(Exception):
    """A command was refused, or took too long."""


@dataclass(slots=True)
class Figures:
    """What was measured.

    Attributes:
        gaps: Seconds between two pieces of a stream, by phase.
        tokens: Tokens of the later pieces, by phase.
        load_seconds: From the command to the trial, of each head.
    """

    gaps: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    tokens: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    load_seconds: list[float] = field(default_factory=list)


class Client:
    """Streams one answer after the other on a thread of its own.

    Attributes:
        phase: To which the gaps belong that it measures now.

    Args:
        url: Of the gateway.
        model: What it calls its model.
        figures: Takes the gaps.
    """

    def __init__(self, url: str, model: str, figures: Figures) -> None:
        self.phase = "warm-up"
        self._url = f"{url}/v1/chat/completions"
        self._model = model
        self._figures = figures
        self._ended = threading.Event()
        self._error: Exception | None = None

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Stream for the duration of the block.

        Raises:
            httpx.HTTPError: A request failed, which no change of heads may cause.
        """
        thread = threading.Thread(target=self._stream)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
        if self._error is not None:
            raise self._error

    def _stream(self) -> None:
        number = 0
        while not self._ended.is_set() and self._error is None:
            number += 1
            try:
                self._answer(number)
            except httpx.HTTPError as error:
                self._error = error

    def _answer(self, number: int) -> None:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "user", "content": _PROMPT.format(number=number)}],
            "max_tokens": _ANSWER_TOKENS,
            "temperature": 0.7,
            "seed": number,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        last: tuple[float, str, int] | None = None
        with httpx.stream("POST", self._url, json=body, timeout=_ANSWER_SECONDS) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                if '"content"' not in line:
                    continue
                now, phase = time.perf_counter(), self.phase
                tokens = json.loads(line.removeprefix("data: "))["usage"]["completion_tokens"]
                if last is not None and last[1] == phase:
                    self._figures.gaps[phase].append(now - last[0])
                    self._figures.tokens[phase] += tokens - last[2]
                last = now, phase, tokens


def measure(url: str, model: str, head: Path, *, rounds: int, seconds: float) -> Figures:
    """Load a head several times, each time after quiet time; every trial is ended.

    Args:
        url: Of the gateway.
        model: What it calls its model.
        head: A writable copy of the head that serves; each round makes another version of it.
        rounds: Number of loads.
        seconds: Of quiet, and of a trial.

    Raises:
        httpx.HTTPError: A request failed.
        SwapError: A command was refused, or took too long.
    """
    figures = Figures()
    client = Client(url, model, figures)
    with httpx.Client(base_url=url, timeout=_ANSWER_SECONDS) as control, client.streaming():
        time.sleep(seconds)
        for number in range(rounds):
            client.phase = QUIET
            _wait(control, seconds)
            folder = _next_version(head, number)
            client.phase = LOADING
            began = time.perf_counter()
            command = control.post("/heads", json={"folder": str(folder)}).raise_for_status()
            _until_tried(control, command.json()["workers"][0]["id"])
            figures.load_seconds.append(time.perf_counter() - began)
            client.phase = TRIAL
            _wait(control, seconds)
            client.phase = "after"
            control.post("/heads/forget").raise_for_status()
            say(f"round {number + 1}/{rounds}: loaded in {figures.load_seconds[-1]:.1f} s")
            time.sleep(2.0)
    for phase in ("warm-up", "after"):
        figures.gaps.pop(phase, None)
    return figures


def _next_version(head: Path, number: int) -> Path:
    folder = head.with_name(f"head-{number}")
    shutil.copytree(head, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config, indent=number), encoding="utf-8")
    return folder


def _wait(control: httpx.Client, seconds: float) -> None:
    """Wait, and ask as often as while a head is loaded."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        control.get("/heads").raise_for_status()
        time.sleep(_POLL_SECONDS)


def _until_tried(control: httpx.Client, command: str) -> None:
    deadline = time.monotonic() + _LOAD_SECONDS
    while time.monotonic() < deadline:
        (worker,) = control.get("/heads").raise_for_status().json()["workers"]
        changes = {change["id"]: change for change in worker["engines"][0]["heads"]["changes"]}
        change = changes.get(command, {"state": "loading"})
        if change["state"] == "trial":
            return
        if change["state"] != "loading":
            raise SwapError(f"the head is not tried but {change['state']}: {change['why']}")
        time.sleep(_POLL_SECONDS)
    raise SwapError(f"the head was not loaded in {_LOAD_SECONDS:.0f} s")
