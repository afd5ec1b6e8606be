import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from engine.worker.chunks import Addition

ROLE = 'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
TEXT = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
ERROR = 'data: {"error":{"message":"a"}}\n\n'
DONE = "data: [DONE]\n\n"


class Counted(Addition):
    """Says how many outputs it has seen since it was asked last."""

    def __init__(self, seen: int) -> None:
        self.seen = seen

    def see(self, output: Any) -> None:
        self.seen += 1

    def take(self) -> str:
        seen, self.seen = self.seen, 0
        return f'"seen":{seen}' if seen else ""


async def given(items: Sequence[Any]) -> AsyncGenerator[Any, None]:
    for item in items:
        yield item


def added(*chunks: str, seen: int) -> list[str]:
    async def read() -> list[str]:
        return [chunk async for chunk in Counted(seen).add_to(given(chunks))]

    return asyncio.run(read())


@pytest.mark.parametrize("chunk", [ROLE, ERROR, DONE], ids=["role", "error", "end"])
def test_the_member_waits_for_a_chunk_with_text(chunk: str) -> None:
    assert added(chunk, TEXT, TEXT, seen=2) == [
        chunk,
        'data: {"choices":[{"delta":{"content":"a"}}],"seen":2}\n\n',
        TEXT,
    ]


def test_outputs_are_seen_as_they_pass() -> None:
    counted = Counted(0)

    async def read() -> list[Any]:
        return [
            item async for item in counted.watch(given([(0, "a"), (0, "b")]), lambda one: one[1])
        ]

    assert asyncio.run(read()) == [(0, "a"), (0, "b")]
    assert counted.seen == 2
