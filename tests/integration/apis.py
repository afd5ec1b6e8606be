"""The four endpoints that stream: what to send to each, and its official SDK."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest

from tests.fakes.state import DEFAULT_MODEL

PROMPT = "Say hello."
_MESSAGES: list[Any] = [{"role": "user", "content": PROMPT}]
_KEY = "sg-not-checked"

ReadStream = Callable[[str, Mapping[str, Any], list[str]], Coroutine[None, None, None]]
Ask = Callable[[str, Mapping[str, Any]], Coroutine[None, None, str]]


@dataclass(frozen=True, slots=True)
class Api:
    """One endpoint and its SDK.

    Attributes:
        name: Name in test ids.
        path: On gateway and worker.
        fields: The smallest body.
        error: Base class of the errors that the SDK raises for error responses.
        end: Bytes that only a complete stream contains.
        read_stream: Streams with the SDK from a base URL, with extra fields in the body; appends
            each piece of text to the list.
        ask: The same without streaming; returns the text.
    """

    name: str
    path: str
    fields: Mapping[str, Any]
    error: type[Exception]
    end: bytes
    read_stream: ReadStream
    ask: Ask

    def body(self, *, stream: bool = False, **more: Any) -> dict[str, Any]:
        """A request body; `fake=` holds the worker's script."""
        return {"model": DEFAULT_MODEL, **self.fields, "stream": stream, **more}


def _openai(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=f"{url}/v1",
        api_key=_KEY,
        max_retries=0,
        timeout=20.0,
        # Loading certificates would take longer than an answer.
        http_client=openai.DefaultAsyncHttpxClient(verify=False),
    )


def _anthropic(url: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=url,
        api_key=_KEY,
        max_retries=0,
        timeout=20.0,
        http_client=anthropic.DefaultAsyncHttpxClient(verify=False),
    )


async def _stream_chat(url: str, extra: Mapping[str, Any], into: list[str]) -> None:
    async with _openai(url) as client:
        stream = await client.chat.completions.create(
            model=DEFAULT_MODEL, messages=_MESSAGES, stream=True, extra_body=dict(extra)
        )
        async for chunk in stream:
            into += [choice.delta.content or "" for choice in chunk.choices]


async def _ask_chat(url: str, extra: Mapping[str, Any]) -> str:
    async with _openai(url) as client:
        answer = await client.chat.completions.create(
            model=DEFAULT_MODEL, messages=_MESSAGES, extra_body=dict(extra)
        )
        return answer.choices[0].message.content or ""


async def _stream_completions(url: str, extra: Mapping[str, Any], into: list[str]) -> None:
    async with _openai(url) as client:
        stream = await client.completions.create(
            model=DEFAULT_MODEL, prompt=PROMPT, stream=True, extra_body=dict(extra)
        )
        async for chunk in stream:
            into += [choice.text for choice in chunk.choices]


async def _ask_completions(url: str, extra: Mapping[str, Any]) -> str:
    async with _openai(url) as client:
        answer = await client.completions.create(
            model=DEFAULT_MODEL, prompt=PROMPT, extra_body=dict(extra)
        )
        return answer.choices[0].text


async def _stream_responses(url: str, extra: Mapping[str, Any], into: list[str]) -> None:
    async with _openai(url) as client:
        stream = await client.responses.create(
            model=DEFAULT_MODEL, input=PROMPT, stream=True, extra_body=dict(extra)
        )
        async for event in stream:
            if event.type == "response.output_text.delta":
                into.append(event.delta)


async def _ask_responses(url: str, extra: Mapping[str, Any]) -> str:
    async with _openai(url) as client:
        answer = await client.responses.create(
            model=DEFAULT_MODEL, input=PROMPT, extra_body=dict(extra)
        )
        return answer.output_text


async def _stream_messages(url: str, extra: Mapping[str, Any], into: list[str]) -> None:
    async with _anthropic(url) as client:
        stream = await client.messages.create(
            model=DEFAULT_MODEL,
            max_tokens=64,
            messages=_MESSAGES,
            stream=True,
            extra_body=dict(extra),
        )
        async for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                into.append(event.delta.text)


async def _ask_messages(url: str, extra: Mapping[str, Any]) -> str:
    async with _anthropic(url) as client:
        answer = await client.messages.create(
            model=DEFAULT_MODEL, max_tokens=64, messages=_MESSAGES, extra_body=dict(extra)
        )
        return "".join(block.text for block in answer.content if block.type == "text")


CHAT = Api(
    "chat",
    "/v1/chat/completions",
    {"messages": _MESSAGES},
    openai.APIError,
    b"data: [DONE]",
    _stream_chat,
    _ask_chat,
)
COMPLETIONS = Api(
    "completions",
    "/v1/completions",
    {"prompt": PROMPT},
    openai.APIError,
    b"data: [DONE]",
    _stream_completions,
    _ask_completions,
)
RESPONSES = Api(
    "responses",
    "/v1/responses",
    {"input": PROMPT},
    openai.APIError,
    b"event: response.completed",
    _stream_responses,
    _ask_responses,
)
MESSAGES = Api(
    "messages",
    "/v1/messages",
    {"messages": _MESSAGES, "max_tokens": 64},
    anthropic.APIError,
    b"event: message_stop",
    _stream_messages,
    _ask_messages,
)
APIS = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)
each_api = pytest.mark.parametrize("api", APIS, ids=[api.name for api in APIS])
