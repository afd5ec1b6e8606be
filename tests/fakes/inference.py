"""The endpoints that generate: checks the request as vLLM does, then plays its script."""

import asyncio
from dataclasses import replace
from typing import Any

from tests.fakes.chunk_dialects import Chat, Completions
from tests.fakes.event_dialects import Embeddings, Messages, Responses
from tests.fakes.http_connection import Answering, HttpConnection
from tests.fakes.playback import plan_stream, play
from tests.fakes.refusals import (
    Refusal,
    check_request,
    invalid_body,
    invalid_script,
    scripted,
)
from tests.fakes.reply import Dialect, Reply, UnaryDialect, compact, next_serial
from tests.fakes.script import DEFAULT, Script, ScriptError, read_script
from tests.fakes.state import RecordedRequest, WorkerState

_STREAMING: dict[str, Dialect] = {
    "/v1/chat/completions": Chat(),
    "/v1/completions": Completions(),
    "/v1/responses": Responses(),
    "/v1/messages": Messages(),
}
_UNARY: dict[str, UnaryDialect] = {**_STREAMING, "/v1/embeddings": Embeddings()}
PATHS = frozenset(_UNARY)
_NO_SERIAL = "serial----------"


class Inference:
    """Answers the endpoints that generate.

    Args:
        state: Settings and counters of the worker; read at each request.
    """

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._instant_bodies: dict[tuple[str, str], bytes] = {}

    def answer(self, request: RecordedRequest, connection: HttpConnection) -> Answering | None:
        """Answer at once where the script allows it, else return the coroutine that will."""
        try:
            payload, script = read_script(request.body)
        except ScriptError as error:
            return _refused(invalid_script(str(error)), connection)
        except ValueError as error:
            return _refused(invalid_body(str(error)), connection)
        script = self._state.script or script
        refusal = check_request(
            request.path,
            payload,
            models=self._state.models,
            max_model_len=self._state.max_model_len,
        )
        if refusal is not None:
            return _refused(refusal, connection)
        streams = payload.get("stream") is True and request.path in _STREAMING
        asks_more = _is_traced(payload) or payload.get("return_token_ids") is True
        is_plain = script is DEFAULT and not streams and not asks_more
        if is_plain and not self._state.stall:
            self._answer_instantly(request.path, self._model_of(payload), connection)
            return None
        return self._run(request, connection, payload, script)

    def _model_of(self, payload: dict[str, Any]) -> str:
        return str(payload.get("model", self._state.models[0]))

    def _answer_instantly(self, path: str, model: str, connection: HttpConnection) -> None:
        known = self._instant_bodies.get((path, model))
        if known is None:
            reply = Reply(model=model, script=DEFAULT, texts=DEFAULT.texts(), serial=_NO_SERIAL)
            known = compact(_UNARY[path].unary(reply)).encode()
            self._instant_bodies[path, model] = known
        connection.send_json(known.replace(_NO_SERIAL.encode(), next_serial().encode()))
        self._count_whole(DEFAULT, tokens=DEFAULT.chunks)

    async def _run(
        self,
        request: RecordedRequest,
        connection: HttpConnection,
        payload: dict[str, Any],
        script: Script,
    ) -> None:
        state = self._state
        state.active += 1
        try:
            if _is_off(payload) and script.plain_seconds:
                await asyncio.sleep(script.plain_seconds)
            if await self._broke_before_headers(connection, script):
                return
            if script.status >= 300:
                refusal = scripted(request.path, script.status, script.error)
                connection.send_error(refusal.status, refusal.body, script.headers)
                return
            reply = _reply_to(payload, model=self._model_of(payload), script=script)
            if state.is_plain:
                reply = replace(reply, traced=False)
            if payload.get("stream") is True and request.path in _STREAMING:
                await self._stream(request, connection, reply)
            else:
                await self._send_whole(request.path, connection, reply)
        finally:
            state.active -= 1
            state.counters.aborted += request.aborted

    async def _broke_before_headers(self, connection: HttpConnection, script: Script) -> bool:
        if script.delay_headers_seconds:
            await asyncio.sleep(script.delay_headers_seconds)
        if not self._state.flowing.is_set():
            await self._state.flowing.wait()
        if script.hang_before_headers:
            await asyncio.Event().wait()  # until the peer leaves or the worker stops
        if script.drop_before_headers:
            await connection.drop(reset=script.reset)
        return script.drop_before_headers

    async def _stream(
        self, request: RecordedRequest, connection: HttpConnection, reply: Reply
    ) -> None:
        connection.begin_stream(reply.script.status, reply.script.headers)
        if reply.script.drop_after_headers:
            await connection.drop(reset=reply.script.reset)
            return
        steps = plan_stream(reply, _STREAMING[request.path])
        await play(steps, connection, request=request, reply=reply, state=self._state)

    async def _send_whole(self, path: str, connection: HttpConnection, reply: Reply) -> None:
        script = reply.script
        body = compact(_UNARY[path].unary(reply)).encode()
        headers = {"content-type": "application/json", **script.headers}
        cut = script.drop_after_headers or script.truncate_unary
        sent = b"" if script.drop_after_headers else body[: len(body) // 2] if cut else body
        connection.send_body(script.status, sent, headers, promised=len(body))
        if cut:
            await connection.drop(reset=script.reset)
            return
        self._count_whole(script, tokens=reply.completion_tokens)

    def _count_whole(self, script: Script, *, tokens: int) -> None:
        self._state.counters.iterations += tokens
        self._state.counters.generation_tokens += tokens
        self._state.counters.count_finished(script)


def _refused(refusal: Refusal, connection: HttpConnection) -> Answering | None:
    connection.send_error(refusal.status, refusal.body, {})
    return None


def _reply_to(payload: dict[str, Any], *, model: str, script: Script) -> Reply:
    options = payload.get("stream_options") or {}
    texts = script.texts()
    streams = payload.get("stream") is True
    padded_bytes = script.huge_frame_bytes if streams else script.unary_bytes
    if padded_bytes:
        texts = [texts[0].ljust(padded_bytes, "x") if texts else "x" * padded_bytes, *texts[1:]]
    return Reply(
        model=model,
        script=script,
        texts=texts,
        include_usage=options.get("include_usage") is True,
        continuous_usage=options.get("continuous_usage_stats") is True,
        traced=_is_traced(payload),
        with_ids=payload.get("return_token_ids") is True,
        plain=_is_off(payload),
        logprobs=bool(payload.get("logprobs")),
        sends_ids=script.resumes and _xargs(payload).get("specgate_ids") == 1,
        resumed=len(_xargs(payload).get("specgate_resume", ())) if script.resumes else 0,
    )


def _is_traced(payload: dict[str, Any]) -> bool:
    return _xargs(payload).get("specgate_trace") == 1


def _is_off(payload: dict[str, Any]) -> bool:
    return _xargs(payload).get("specgate_mode") == "off"


def _xargs(payload: dict[str, Any]) -> dict[str, Any]:
    return payload.get("vllm_xargs") or {}
