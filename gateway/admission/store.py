"""The connection to a Redis or Valkey server that all replicas share.

Commands of all requests leave in one pipeline at a time, over one connection: the store sees them
in their order, and a burst of requests costs a few round trips. A store that fails is not asked
again until a probe has succeeded, so that it costs few requests its timeout.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

_COMMANDS_AT_ONCE = 256
_PROBE = "return redis.call('SET', KEYS[1], '1', 'EX', 10)"
_PROBE_KEY = "specgate:probe"
_PROBE_SECONDS = 1.0
"""Longest duration of a probe, which may have to connect; and the pause between two."""


@dataclass(frozen=True, slots=True)
class _Command:
    script: str
    keys: Sequence[str]
    arguments: Sequence[str | int | float]
    reply: asyncio.Future[Any | None] | None
    """None: nobody waits."""


class Store:
    """Runs Lua scripts on the server while `run` runs.

    Args:
        url: `redis://`, `rediss://` or `unix://`.
        password: None: none.
        timeout_seconds: Longest wait for the replies to a pipeline.
        on_change: Called with the new state and, if it is down, the reason.
    """

    def __init__(
        self,
        url: str,
        *,
        password: str | None,
        timeout_seconds: float,
        on_change: Callable[[bool, str], None],
    ) -> None:
        self._client = Redis.from_url(
            url,
            password=password,
            retry=Retry(NoBackoff(), 0),  # a retry would run a script twice
            # Time limits are ours. Those of redis-py use `asyncio.wait_for`, which loses a
            # cancellation on Python 3.11: https://github.com/python/cpython/issues/86296
            socket_timeout=None,
            socket_connect_timeout=None,
        )
        self._timeout_seconds = timeout_seconds
        self._on_change = on_change
        self._queue: deque[_Command] = deque()
        self._queued = asyncio.Event()
        self._came_up_seconds = 0.0
        self._state: bool | None = None  # unknown before the first probe

    @property
    def is_up(self) -> bool:
        """Whether the store answers, as far as is known."""
        return self._state is True

    async def call(
        self, script: str, keys: Sequence[str], arguments: Sequence[str | int | float]
    ) -> Any | None:
        """Run a script; returns its reply, which must not be nil.

        Returns None if the store is down or failed: the script may have run, or may still run.
        """
        if not self.is_up:
            return None
        reply: asyncio.Future[Any | None] = asyncio.get_running_loop().create_future()
        self._append(_Command(script, keys, arguments, reply))
        return await reply

    def post(
        self, script: str, keys: Sequence[str], arguments: Sequence[str | int | float]
    ) -> None:
        """Run a script in the background; it is sent again until the store has answered.

        So it may run twice.
        """
        self._append(_Command(script, keys, arguments, None))

    async def run(self) -> None:
        """Talk to the store until cancelled; what was posted is then sent once more."""
        try:
            while True:
                if not self.is_up:
                    await self._recover()
                elif not self._queue:
                    self._queued.clear()
                    await self._queued.wait()
                else:
                    await self._exchange()
        finally:
            self._refuse_calls()
            while self.is_up and self._queue:
                await self._exchange()
            await self._client.aclose()

    def _append(self, command: _Command) -> None:
        self._queue.append(command)
        self._queued.set()

    async def _exchange(self) -> None:
        """Send what is queued as one pipeline, and hand out the replies."""
        size = min(len(self._queue), _COMMANDS_AT_ONCE)
        commands = [self._queue.popleft() for _ in range(size)]
        replies: list[Any] | None = None
        try:
            replies = await self._pipeline(commands, timeout_seconds=self._timeout_seconds)
        except (RedisError, OSError, TimeoutError) as error:
            self._fail(error)
        finally:
            if replies is None:
                self._queue.extendleft(c for c in reversed(commands) if c.reply is None)
                replies = [None] * size
            for command, reply in zip(commands, replies, strict=True):
                if isinstance(reply, RedisError):
                    self._fail(reply)
                _answer(command, None if isinstance(reply, RedisError) else reply)

    async def _pipeline(self, commands: Sequence[_Command], *, timeout_seconds: float) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        async with asyncio.timeout(timeout_seconds), pipeline:
            for command in commands:
                # Not EVALSHA, which fails after a restart of the store. The text is 1 KB.
                pipeline.eval(command.script, len(command.keys), *command.keys, *command.arguments)
            return await pipeline.execute(raise_on_error=False)

    def _fail(self, error: Exception) -> None:
        self._change(False, str(error) or type(error).__name__)
        self._refuse_calls()

    def _change(self, state: bool, reason: str) -> None:
        if state is not self._state:
            self._state = state
            self._on_change(state, reason)

    def _refuse_calls(self) -> None:
        """Answer the calls that wait to be sent; what was posted stays."""
        for command in self._queue:
            _answer(command, None)
        self._queue = deque(command for command in self._queue if command.reply is None)

    async def _recover(self) -> None:
        """Probe until the store works; it comes up once a second at most."""
        pause = self._came_up_seconds + _PROBE_SECONDS - time.monotonic()
        probe = _Command(_PROBE, [_PROBE_KEY], [], None)
        while True:
            await asyncio.sleep(pause)
            pause = _PROBE_SECONDS
            try:
                (reply,) = await self._pipeline([probe], timeout_seconds=_PROBE_SECONDS)
            except (RedisError, OSError, TimeoutError) as error:
                reply = error
            if not isinstance(reply, Exception):
                break
            self._fail(reply)
        self._came_up_seconds = time.monotonic()
        self._change(True, "")


def _answer(command: _Command, reply: Any | None) -> None:
    if command.reply is not None and not command.reply.done():
        command.reply.set_result(reply)
