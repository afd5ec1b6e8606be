import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gateway.verify.ask import Asked, Side, VerifyError, ask, find_model, find_sides
from gateway.verify.prompts import Prompt

URL = "http://server"
Handler = Callable[[httpx.Request], httpx.Response]


def client(handler: Handler) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.MockTransport(handler))


def logprob(text: str, value: float, **others: float) -> dict[str, Any]:
    alternatives = [{"token": name, "logprob": one, "bytes": None} for name, one in others.items()]
    return {
        "token": text, "logprob": value, "bytes": [*text.encode()], "top_logprobs": alternatives,
    }  # fmt: skip


async def answer_of(
    text: str, *, status: int = 200, stream: bool = False, side: Side | None = None
) -> tuple[Asked, dict[str, Any]]:
    bodies = []

    def handler(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(status, text=text)

    prompt = Prompt(1, "chat", {"messages": [], "stream": stream} if stream else {"messages": []})
    async with client(handler) as asking:
        found = await ask(asking, side or Side("plain", URL), "m", prompt)
    return found, bodies[0]


async def test_an_answer_with_its_tokens() -> None:
    whole = {
        "choices": [
            {
                "message": {"role": "assistant", "content": "Hi", "tool_calls": []},
                "logprobs": {"content": [logprob("H", -0.1, H=-0.1, B=-2.5), logprob("i", 0.0)]},
                "finish_reason": "stop",
            }
        ],
        "usage": {"completion_tokens": 3},
    }

    found, body = await answer_of(json.dumps(whole))

    assert [one.text for one in found.tokens] == [b"H", b"i"]
    assert found.tokens[0].alternatives == {b"H": -0.1, b"B": -2.5}
    assert found.message == {"content": "Hi"}
    assert (found.finish_reason, found.completion_tokens) == ("stop", 3)
    assert (body["temperature"], body["logprobs"], body["model"]) == (0.0, True, "m")
    assert "cache_salt" not in body
    assert "stream_options" not in body


async def test_a_stream_is_put_together() -> None:
    def chunk(delta: dict[str, Any], *tokens: str, reason: str | None = None) -> str:
        content = [logprob(one, 0.0) for one in tokens]
        choice = {"delta": delta, "logprobs": {"content": content}, "finish_reason": reason}
        return f"data: {json.dumps({'choices': [choice]})}\n\n"

    def call(**function: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": 0, "function": function}]}

    text = (
        ": a comment\n\n"
        + chunk({"role": "assistant", "content": ""})
        + chunk(call(name="f", arguments=""), "f")
        + chunk(call(arguments='{"a":'), "{", "a")
        + chunk(call(arguments="1}"), "1}", reason="tool_calls")
        + 'data: {"choices": [], "usage": {"completion_tokens": 4}}\n\n'
        + "data: [DONE]\n\n"
    )

    found, body = await answer_of(text, stream=True)

    assert found.message == {"tool_calls": [{"name": "f", "arguments": '{"a":1}'}]}
    assert [one.text for one in found.tokens] == [b"f", b"{", b"a", b"1}"]
    assert (found.finish_reason, found.completion_tokens) == ("tool_calls", 4)
    assert body["stream_options"] == {"include_usage": True}


async def test_a_specgate_keeps_the_prefix_cache_out_of_it() -> None:
    whole = '{"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}'
    side = Side("plain", URL, {"speculation": {"mode": "off"}}, is_ours=True)

    _, first = await answer_of(whole, side=side)
    _, second = await answer_of(whole, side=side)

    assert first["speculation"] == {"mode": "off"}
    assert first["cache_salt"] != second["cache_salt"]


async def test_a_refused_prompt_has_the_servers_reason() -> None:
    found, _ = await answer_of('{"error": {"message": "no grammars"}}', status=400)

    assert found.refusal == "no grammars"


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (404, '{"error": {"message": "the model is gone"}}', "the model is gone"),
        (401, "", "status 401"),
        (500, "oops", "status 500"),
        (200, "oops", "not OpenAI's"),
        (200, '{"choices": [{}]}', "not OpenAI's"),
    ],
)
async def test_a_server_that_cannot_be_verified(status: int, text: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message) as raised:
        await answer_of(text, status=status)

    assert "\n" not in str(raised.value)


async def test_an_error_in_a_stream() -> None:
    with pytest.raises(VerifyError, match="the worker is gone"):
        await answer_of('data: {"error": {"message": "the worker is gone"}}\n\n', stream=True)


async def test_a_server_that_is_not_there() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    async with client(handler) as asking:
        with pytest.raises(VerifyError, match="refused"):
            await find_model(asking, URL, None)
        with pytest.raises(VerifyError, match="refused"):
            await ask(asking, Side("plain", URL), "m", Prompt(1, "chat", {}))


@pytest.mark.parametrize(("models", "name", "found"), [(["a"], None, "a"), (["a", "b"], "b", "b")])
async def test_the_model(models: list[str], name: str | None, found: str) -> None:
    listed = {"data": [{"id": one} for one in models]}

    async with client(lambda _: httpx.Response(200, json=listed)) as asking:
        assert await find_model(asking, URL, name) == found


@pytest.mark.parametrize(
    ("answer", "name", "message"),
    [
        (httpx.Response(200, json={"data": [{"id": "a"}, {"id": "b"}]}), None, "--model"),
        (httpx.Response(200, json={"data": [{"id": "a"}]}), "b", "does not serve b"),
        (httpx.Response(200, text="<html>"), None, "right address"),
        (httpx.Response(401, json={"error": {"message": "no key"}}), None, "no key"),
    ],
)
async def test_no_model(answer: httpx.Response, name: str | None, message: str) -> None:
    async with client(lambda _: answer) as asking:
        with pytest.raises(VerifyError, match=message):
            await find_model(asking, URL, name)


async def test_one_specgate_or_two_servers() -> None:
    async with client(lambda _: httpx.Response(200, json={"workers": []})) as asking:
        plain, drafted = await find_sides(asking, URL, None)
        assert (plain.members, drafted.members) == (
            {"speculation": {"mode": "off"}},
            {"speculation": {"mode": "auto"}},
        )
        plain, drafted = await find_sides(asking, URL, "http://other")
        assert (plain.url, drafted.url) == ("http://other", URL)
        assert not plain.members
        assert not drafted.members
    async with client(lambda _: httpx.Response(404)) as asking:
        with pytest.raises(VerifyError, match="--plain-url"):
            await find_sides(asking, URL, None)
