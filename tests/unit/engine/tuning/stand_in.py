"""A worker that answers at once, and counts what it was asked."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from engine.errors import TrainingError

GATE = {
    "step_cost_ms": [[1, 10.0], [8, 14.0]],
    "pass_cost_ms": [[1, 1.0]],
    "verification_cost_ms": [[1, 0.0], [16, 0.0]],
}
SUFFIX_DRAFT, HEAD_DRAFT = 1 << 16 | 4, 2 << 16 | 3


class StandIn:
    """What `starting_writer` yields.

    Args:
        profile: The `engine:` section that it was started with.
        fails: Whether each request fails.
    """

    pid = 2**22 + 1  # no process has this number

    def __init__(self, profile: dict[str, Any], *, fails: bool = False) -> None:
        self.profile = profile
        self.asked: list[dict[str, Any]] = []
        self.generated = 0
        self._fails = fails

    async def ask(self, **fields: Any) -> dict[str, Any]:
        if self._fails:
            raise TrainingError("the worker failed: it is a test")
        self.asked.append(fields)
        tokens = list(range(100, 100 + min(12, fields["max_tokens"])))
        self.generated += len(tokens)
        sources = self.profile["speculation"]["sources"]
        code = HEAD_DRAFT if "head" in sources else SUFFIX_DRAFT
        steps = {"per_step_drafted": [code, code], "per_step_accepted": [2, 0]}
        metrics: dict[str, Any] = {"time_to_first_token_ms": 0.001}
        if sources:
            metrics["speculative_decoding"] = steps
        return {"choices": [{"token_ids": tokens}], "metrics": metrics}

    async def read(self, path: str) -> str:
        if path == "/speculation":
            return json.dumps({"engines": [{"engine": 0, "gate": GATE}]})
        return (
            f'vllm:generation_tokens_total{{engine="0"}} {self.generated}.0\n'
            'vllm:num_requests_running{engine="0"} 0.0\n'
        )


class Starts:
    """Stands in for `starting_writer`.

    Attributes:
        workers: All that were started.
        running: How many have not been stopped.

    Args:
        failing: Sources whose worker fails.
    """

    def __init__(self, *failing: str) -> None:
        self.workers: list[StandIn] = []
        self.running = 0
        self._failing = failing

    @contextlib.asynccontextmanager
    async def __call__(
        self, engine: dict[str, Any], *, model: str, log: Path
    ) -> AsyncIterator[StandIn]:
        fails = "+".join(engine["speculation"]["sources"]) in self._failing
        self.workers.append(StandIn(engine, fails=fails))
        self.running += 1
        try:
            yield self.workers[-1]
        finally:
            self.running -= 1

    @property
    def started(self) -> list[str]:
        """The sources of each."""
        return ["+".join(one.profile["speculation"]["sources"]) or "off" for one in self.workers]
