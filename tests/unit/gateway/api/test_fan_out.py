from types import SimpleNamespace
from typing import Any

from gateway.api.fan_out import ask_all
from gateway.errors import UpstreamError


async def test_answers_and_errors_come_in_the_order_of_the_workers() -> None:
    async def ask(worker: Any) -> dict[str, Any]:
        if worker.id == "b":
            raise UpstreamError("no")
        return {"answer": worker.id}

    workers: list[Any] = [SimpleNamespace(id=name) for name in "abc"]

    assert await ask_all(workers, ask) == [
        {"worker": "a", "answer": "a"},
        {"worker": "b", "error": "no"},
        {"worker": "c", "answer": "c"},
    ]
