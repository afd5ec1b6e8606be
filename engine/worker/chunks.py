"""Adds a member of ours to the chunks that vLLM's server streams."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

_END = "}\n\n"
_ROLE = '"delta":{"role":'
"""In the first chunk of a chat, which comes before the text of the first output."""
_ERROR = 'data: {"error"'


class Addition(ABC):
    """What the chunks of one stream get: read of vLLM's outputs, written behind its members."""

    @abstractmethod
    def see(self, output: Any) -> None:
        """Take in a `RequestOutput` that the next chunks are made of."""

    @abstractmethod
    def take(self) -> str:
        """Return what is new since the last call, as a member of JSON; empty if nothing is."""

    async def watch(
        self,
        outputs: AsyncGenerator[Any, None],
        output_of: Callable[[Any], Any] = lambda item: item,
    ) -> AsyncGenerator[Any, None]:
        """Pass outputs on."""
        async with aclosing(outputs):
            async for item in outputs:
                self.see(output_of(item))
                yield item

    async def add_to(self, chunks: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
        """Pass a stream's chunks on, each with what is new."""
        async with aclosing(chunks):
            async for chunk in chunks:
                if chunk.endswith(_END) and not chunk.startswith(_ERROR) and _ROLE not in chunk:
                    new = self.take()
                    yield f"{chunk[: -len(_END)]},{new}{_END}" if new else chunk
                else:
                    yield chunk
