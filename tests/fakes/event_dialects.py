"""`/v1/responses` and `/v1/messages`: named events; and `/v1/embeddings`, which never streams."""

import json

from tests.fakes.reply import JsonDict, Reply, event_frame

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


class Responses:
    """OpenAI's Responses; the stream ends with `response.completed`, without `[DONE]`."""

    def unary(self, reply: Reply) -> JsonDict:
        return self._response(reply, status="completed") | {
            "metrics": reply.metrics() | {"speculative_decoding": None}
        }

    def opening(self, reply: Reply) -> list[bytes]:
        begun = self._response(reply, status="in_progress")
        item = self._item(reply, status="in_progress")
        part: JsonDict = {"annotations": [], "text": "", "type": "output_text", "logprobs": []}
        return [
            self._event("response.created", 0, {"response": begun}),
            self._event("response.in_progress", 1, {"response": begun}),
            self._event("response.output_item.added", 2, {"item": item, "output_index": 0}),
            self._event("response.content_part.added", 3, self._position(reply) | {"part": part}),
        ]

    def piece(self, reply: Reply, index: int) -> bytes:
        position = self._position(reply) | {"delta": reply.texts[index], "logprobs": []}
        return self._event("response.output_text.delta", 4 + index, position)

    def closing(self, reply: Reply) -> list[bytes]:
        number = 4 + len(reply.texts)
        position, item = self._position(reply), self._item(reply, status="completed")
        text = {"text": "".join(reply.texts), "logprobs": []}
        part = {"part": item["content"][0]}
        return [
            self._event("response.output_text.done", number, position | text),
            self._event("response.content_part.done", number + 1, position | part),
            self._event("response.output_item.done", number + 2, {"item": item, "output_index": 0}),
            self._event("response.completed", number + 3, {"response": self.unary(reply)}),
        ]

    def failure(self, message: str) -> list[bytes]:
        error = {"message": message, "type": "InternalServerError", "param": None, "code": 500}
        return [f"data: {json.dumps({'error': error})}\n\n".encode()]

    def _event(self, event: str, number: int, data: JsonDict) -> bytes:
        return event_frame(event, data | {"sequence_number": number, "type": event})

    def _position(self, reply: Reply) -> JsonDict:
        return {"content_index": 0, "item_id": f"msg_{reply.serial}", "output_index": 0}

    def _item(self, reply: Reply, *, status: str) -> JsonDict:
        text = "".join(reply.texts)
        part: JsonDict = {"annotations": [], "text": text, "type": "output_text", "logprobs": None}
        return {
            "id": f"msg_{reply.serial}",
            "content": [part] if status == "completed" else [],
            "role": "assistant",
            "status": status,
            "type": "message",
            "phase": None,
        }

    def _response(self, reply: Reply, *, status: str) -> JsonDict:
        done = status == "completed"
        usage = {
            "input_tokens": reply.script.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": reply.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0, "tool_output_tokens": 0},
            "total_tokens": reply.script.prompt_tokens + reply.completion_tokens,
        }
        return {
            "id": f"resp_{reply.serial}",
            "created_at": reply.created,
            "incomplete_details": None,
            "instructions": None,
            "metadata": None,
            "model": reply.model,
            "object": "response",
            "output": [self._item(reply, status=status)] if done else [],
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "none",
            "tools": [],
            "top_p": 1.0,
            "background": False,
            "max_output_tokens": 64,
            "previous_response_id": None,
            "service_tier": "auto",
            "status": status,
            "truncation": "disabled",
            "usage": usage if done else None,
            "user": None,
        }


class Messages:
    """Anthropic's Messages; the stream ends with `message_stop`."""

    def unary(self, reply: Reply) -> JsonDict:
        return self._message(reply) | {
            "content": [{"type": "text", "text": "".join(reply.texts)}],
            "stop_reason": self._stop_reason(reply),
            "usage": self._usage(reply, reply.completion_tokens),
        }

    def opening(self, reply: Reply) -> list[bytes]:
        usage = self._usage(reply, 0)
        begun = self._message(reply) | {"content": [], "stop_reason": None, "usage": usage}
        block = {"type": "text", "text": ""}
        return [
            self._event("message_start", {"message": begun}),
            self._event("content_block_start", {"content_block": block, "index": 0}),
        ]

    def piece(self, reply: Reply, index: int) -> bytes:
        delta = {"type": "text_delta", "text": reply.texts[index]}
        return self._event("content_block_delta", {"delta": delta, "index": 0})

    def closing(self, reply: Reply) -> list[bytes]:
        delta = {"stop_reason": self._stop_reason(reply), "stop_sequence": None}
        usage = self._usage(reply, reply.completion_tokens)
        return [
            self._event("content_block_stop", {"index": 0}),
            self._event("message_delta", {"delta": delta, "usage": usage}),
            self._event("message_stop", {}),
        ]

    def failure(self, message: str) -> list[bytes]:
        return [self._event("error", {"error": {"type": "internal_error", "message": message}})]

    def _event(self, event: str, data: JsonDict) -> bytes:
        return event_frame(event, {"type": event} | data)

    def _message(self, reply: Reply) -> JsonDict:
        identity = f"chatcmpl-{reply.serial}"
        return {"id": identity, "type": "message", "role": "assistant", "model": reply.model}

    def _stop_reason(self, reply: Reply) -> str:
        return _STOP_REASONS.get(reply.script.finish_reason, reply.script.finish_reason)

    def _usage(self, reply: Reply, output_tokens: int) -> JsonDict:
        return {"input_tokens": reply.script.prompt_tokens, "output_tokens": output_tokens}


class Embeddings:
    """Embeddings of four dimensions."""

    def unary(self, reply: Reply) -> JsonDict:
        vector = {"index": 0, "object": "embedding", "embedding": [0.5, -0.5, 0.5, -0.5]}
        return {
            "id": f"embd-{reply.serial}",
            "object": "list",
            "created": reply.created,
            "model": reply.model,
            "data": [vector],
            "usage": reply.usage_after(0) | {"prompt_tokens_details": None},
        }
