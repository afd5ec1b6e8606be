"""`/v1/chat/completions` and `/v1/completions`: chunks, an optional usage chunk, `[DONE]`."""

import json

from tests.fakes.reply import FINGERPRINT, PROMPT_IDS, JsonDict, Reply, compact

_DONE = b"data: [DONE]\n\n"


def _failure_frames(message: str) -> list[bytes]:
    # vLLM writes this one frame with the blanks that json.dumps puts in by default.
    error = {"message": message, "type": "InternalServerError", "param": None, "code": 500}
    return [f"data: {json.dumps({'error': error})}\n\n".encode(), _DONE]


def _running_usage(reply: Reply, chunks: int) -> str:
    if not reply.continuous_usage:
        return ""
    usage = reply.usage_after(chunks) | {"completion_tokens_details": None}
    return f',"usage":{compact(usage)}'


def _usage_chunk(reply: Reply, head: str) -> bytes:
    usage = compact(reply.usage_after(len(reply.texts)))
    return (
        f'{head}"choices":[],"usage":{usage},"system_fingerprint":"{FINGERPRINT}",'
        f'"metrics":{compact(reply.metrics())}}}\n\n'
    ).encode()


def _whole_usage(reply: Reply) -> JsonDict:
    details: JsonDict = {"prompt_tokens_details": None, "completion_tokens_details": None}
    return details | reply.usage_after(len(reply.texts))


def _ids(reply: Reply, index: int) -> str:
    """As our worker writes them: with blanks, behind all other members."""
    return f',"specgate_ids":{reply.sent_ids(index)}' if reply.sends_ids else ""


def _trace(reply: Reply, index: int) -> str:
    if not reply.traced:
        return ""
    return f',"speculation":{compact({"trace": reply.trace(index)})}'


def _whole_trace(reply: Reply) -> JsonDict:
    if not reply.traced:
        return {}
    entries = [entry for index in range(len(reply.texts)) for entry in reply.trace(index)]
    return {"speculation": {"trace": entries}}


def _prompt_ids(reply: Reply) -> list[int] | None:
    return PROMPT_IDS if reply.with_ids else None


def _delta(reply: Reply, index: int) -> JsonDict:
    text = reply.text(index)
    if reply.script.tool_name is None:
        return {"content": text}
    function = {"arguments": text} | ({} if index else {"name": reply.script.tool_name})
    return {"tool_calls": [{"index": 0, "type": "function", "function": function}]}


class _ChunkDialect:
    """What chat and text completions have in common."""

    id_prefix: str
    chunk_object: str

    def closing(self, reply: Reply) -> list[bytes]:
        usage = [_usage_chunk(reply, self._head(reply))] if reply.include_usage else []
        return [*usage, _DONE]

    def failure(self, message: str) -> list[bytes]:
        return _failure_frames(message)

    def _head(self, reply: Reply) -> str:
        return (
            f'data: {{"id":"{self.id_prefix}-{reply.serial}","object":"{self.chunk_object}",'
            f'"created":{reply.created},"model":{json.dumps(reply.model)},'
        )


def _chat_logprobs(reply: Reply) -> JsonDict | None:
    if not reply.logprobs:
        return None
    content = []
    for place in range(reply.completion_tokens):
        likeliest = [
            {"token": name, "logprob": value, "bytes": None}
            for name, value in reply.chances(place).items()
        ]
        content.append({**likeliest[0], "top_logprobs": likeliest})
    return {"content": content}


def _completion_logprobs(reply: Reply) -> JsonDict | None:
    if not reply.logprobs:
        return None
    likeliest = [reply.chances(place) for place in range(reply.completion_tokens)]
    return {
        "text_offset": [0 for _ in likeliest],
        "token_logprobs": [next(iter(one.values())) for one in likeliest],
        "tokens": [next(iter(one)) for one in likeliest],
        "top_logprobs": likeliest,
    }


class Chat(_ChunkDialect):
    """Chat completions."""

    id_prefix = "chatcmpl"
    chunk_object = "chat.completion.chunk"

    def unary(self, reply: Reply) -> JsonDict:
        message = {
            "role": "assistant",
            "content": "".join(reply.texts),
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": None,
        }
        choice = {
            "index": 0,
            "message": message,
            "logprobs": _chat_logprobs(reply),
            "finish_reason": reply.script.finish_reason,
            "stop_reason": None,
            "token_ids": reply.all_ids(),
            "routed_experts": None,
        }
        return {
            "id": f"chatcmpl-{reply.serial}",
            "object": "chat.completion",
            "created": reply.created,
            "model": reply.model,
            "choices": [choice],
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": _whole_usage(reply),
            "prompt_logprobs": None,
            "prompt_token_ids": _prompt_ids(reply),
            "prompt_text": None,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": reply.metrics(),
            **_whole_trace(reply),
        }

    def opening(self, reply: Reply) -> list[bytes]:
        delta = '"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null'
        tail = f'"prompt_token_ids":{compact(_prompt_ids(reply))},"prompt_text":null'
        usage = _running_usage(reply, 0)
        head = self._head(reply)
        return [f'{head}"choices":[{{"index":0,{delta}}}]{usage},{tail}}}\n\n'.encode()]

    def piece(self, reply: Reply, index: int) -> bytes:
        delta = compact(_delta(reply, index))
        end, fingerprint = '"finish_reason":null', ""
        if index == len(reply.texts) - 1:
            end = f'"finish_reason":"{reply.script.finish_reason}","stop_reason":null'
            if not reply.include_usage:
                fingerprint = f',"system_fingerprint":"{FINGERPRINT}"'
        usage = _running_usage(reply, index + 1)
        return (
            f'{self._head(reply)}"choices":[{{"index":0,"delta":{delta},'
            f'"logprobs":null,{end},"token_ids":{compact(reply.ids(index))}}}]{usage}{fingerprint}'
            f"{_trace(reply, index)}{_ids(reply, index)}}}\n\n"
        ).encode()


class Completions(_ChunkDialect):
    """Text completions."""

    id_prefix = "cmpl"
    chunk_object = "text_completion"

    def unary(self, reply: Reply) -> JsonDict:
        choice = {
            "index": 0,
            "text": "".join(reply.texts),
            "logprobs": _completion_logprobs(reply),
            "finish_reason": reply.script.finish_reason,
            "stop_reason": None,
            "token_ids": reply.all_ids(),
            "prompt_logprobs": None,
            "prompt_token_ids": _prompt_ids(reply),
            "routed_experts": None,
        }
        return {
            "id": f"cmpl-{reply.serial}",
            "object": "text_completion",
            "created": reply.created,
            "model": reply.model,
            "choices": [choice],
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": _whole_usage(reply),
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": reply.metrics(),
            **_whole_trace(reply),
        }

    def opening(self, reply: Reply) -> list[bytes]:
        return []

    def piece(self, reply: Reply, index: int) -> bytes:
        last = index == len(reply.texts) - 1
        choice = {
            "index": 0,
            "text": reply.text(index),
            "logprobs": None,
            "finish_reason": reply.script.finish_reason if last else None,
            "stop_reason": None,
            "prompt_token_ids": _prompt_ids(reply) if index == 0 else None,
            "token_ids": reply.ids(index),
        }
        usage = _running_usage(reply, index + 1)
        stamp = f',"system_fingerprint":"{FINGERPRINT}"' if last and not reply.include_usage else ""
        trace = _trace(reply, index) + _ids(reply, index)
        head = self._head(reply)
        return f'{head}"choices":[{compact(choice)}]{usage}{stamp}{trace}}}\n\n'.encode()
