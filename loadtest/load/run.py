"""Plays a plan: every client starts when it is due, whether or not others have ended."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import aiohttp

from loadtest.conversations import Messages
from loadtest.load.answer import Answer, Ending, read_answer
from loadtest.load.client import Client, Sending
from loadtest.load.plan import Arrival, PlannedTurn
from loadtest.load.scenario import Traffic
from loadtest.progress import say

_PATH = "/v1/chat/completions"
_TRIAL_TOKENS = 4
_TIMER_NS = 1_200_000


class ServerError(Exception):
    """The server cannot be tested; the message says why."""


@dataclass(frozen=True, slots=True)
class Server:
    """Properties of a server, found before the run.

    Attributes:
        model: Asked for in every request.
        counts_tokens: It takes vLLM's `continuous_usage_stats`, so its streams count tokens.
    """

    model: str
    counts_tokens: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request and its answer.

    Attributes:
        turn: Number of the turn within the conversation.
    """

    arrival: Arrival
    turn: int
    answer: Answer


async def find_server(client: Client, *, model: str | None) -> Server:
    """Find the model of a server, and whether its streams count tokens.

    Args:
        client: Of that server.
        model: The one to ask for; None: the first that it lists.

    Raises:
        ServerError: It does not answer, or answers a plain request with an error.
    """
    try:
        status, page = await client.get("/v1/models")
        name = model or str(json.loads(page)["data"][0]["id"])
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ServerError(f"the server does not answer: {error!r}") from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ServerError(f"the server lists no model (status {status}): {error!r}") from error
    counting, plain = (Server(name, counts_tokens=each) for each in (True, False))
    for server in (counting, plain):
        answer = await _try(client, server)
        if answer.ending is Ending.DONE:
            return replace(server, counts_tokens=answer.is_counted)
    raise ServerError(f"a trial request ended with status {answer.status}: {answer.error}")


async def play(plan: Sequence[Arrival], client: Client, server: Server) -> list[Outcome]:
    """Send everything when it is due.

    Returns:
        The outcome of every request, in the order in which they ended.
    """
    outcomes: list[Outcome] = []
    begin_ns = time.monotonic_ns()
    next_word = 10.0
    async with asyncio.TaskGroup() as group:
        for arrival in plan:
            due_ns = begin_ns + int(arrival.due_seconds * 1e9)
            await _wait_until(due_ns)
            group.create_task(converse(arrival, due_ns, client, server, outcomes))
            if arrival.due_seconds >= next_word:
                say(f"{arrival.number + 1} of {len(plan)} began, {len(outcomes)} requests ended")
                next_word += 10.0
    return outcomes


async def converse(
    arrival: Arrival, due_ns: int, client: Client, server: Server, outcomes: list[Outcome]
) -> None:
    """Send every turn of a conversation, until one fails or its client leaves.

    Args:
        arrival: Whose conversation.
        due_ns: CLOCK_MONOTONIC when its first turn is due.
        client: Sends it.
        server: The server.
        outcomes: Takes the outcome of every turn.
    """
    for number, messages in enumerate(arrival.conversation.prompts()):
        turn = arrival.turns[number]
        due_ns += int(turn.wait_seconds * 1e9)
        await _wait_until(due_ns)
        sending = make_sending(arrival.traffic, turn, messages, server, due_ns=due_ns)
        answer = read_answer(await client.send(sending))
        outcomes.append(Outcome(arrival, number, answer))
        due_ns = answer.ended_ns
        if answer.ending is not Ending.DONE:
            return


def make_sending(
    traffic: Traffic, turn: PlannedTurn, messages: Messages, server: Server, *, due_ns: int
) -> Sending:
    """The request of a turn."""
    fields: dict[str, object] = {
        "model": server.model,
        "messages": messages,
        "max_tokens": turn.output_tokens,
        "stream": traffic.stream,
    }
    if traffic.stream:
        counted = {"continuous_usage_stats": True} if server.counts_tokens else {}
        fields["stream_options"] = {"include_usage": True, **counted}
    return Sending(
        path=_PATH,
        body=json.dumps({**fields, **traffic.body}).encode(),
        due_ns=due_ns,
        headers=traffic.headers,
        abort_seconds=turn.abort_seconds,
        read_bytes_per_second=traffic.read_bytes_per_second,
    )


async def _wait_until(due_ns: int) -> None:
    """Sleep until shortly before, as timers are late by a millisecond; then yield until then."""
    await asyncio.sleep(max(0.0, (due_ns - _TIMER_NS - time.monotonic_ns()) / 1e9))
    while time.monotonic_ns() < due_ns:  # noqa: ASYNC110  # no event could be on time
        await asyncio.sleep(0)


async def _try(client: Client, server: Server) -> Answer:
    traffic = Traffic.model_validate(
        {"name": "trial", "prompts": "chat", "output_tokens": {"low": 1, "high": 1}}
    )
    turn = PlannedTurn(output_tokens=_TRIAL_TOKENS, wait_seconds=0.0, abort_seconds=None)
    messages = ({"role": "user", "content": "Hello"},)
    sending = make_sending(traffic, turn, messages, server, due_ns=time.monotonic_ns())
    return read_answer(await client.send(sending))
