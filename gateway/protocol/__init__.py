"""The OpenAI wire format: fields we read or add, SSE frames, error bodies; pure, no I/O."""

from gateway.protocol.answer import Answer, read_answer
from gateway.protocol.endpoints import ENDPOINTS, Dialect, Endpoint, forwarded_endpoint
from gateway.protocol.error_body import error_body, error_event, field_name, relayed_error
from gateway.protocol.padding import padded
from gateway.protocol.prediction import read_tokens, tokenize_body
from gateway.protocol.prompt_text import PromptText, prompt_text
from gateway.protocol.request import (
    InferenceRequest,
    Speculation,
    SpeculationMode,
    forwarded_body,
    read_request,
)
from gateway.protocol.resumption import Progress
from gateway.protocol.second_asking import PlainAnswer, read_second_answer, second_body
from gateway.protocol.seen_tokens import SeenTokens, Watch
from gateway.protocol.sse import KEEP_ALIVE, FrameSplitter
from gateway.protocol.stream import FrameKind, Relayed, StreamReader
from gateway.protocol.tenant import TenantDigests
from gateway.protocol.text_chunk import Part, TextChunk, TextChunks
from gateway.protocol.turn import Turn, items_of, read_facts

__all__ = [
    "ENDPOINTS",
    "KEEP_ALIVE",
    "Answer",
    "Dialect",
    "Endpoint",
    "FrameKind",
    "FrameSplitter",
    "InferenceRequest",
    "Part",
    "PlainAnswer",
    "Progress",
    "PromptText",
    "Relayed",
    "SeenTokens",
    "Speculation",
    "SpeculationMode",
    "StreamReader",
    "TenantDigests",
    "TextChunk",
    "TextChunks",
    "Turn",
    "Watch",
    "error_body",
    "error_event",
    "field_name",
    "forwarded_body",
    "forwarded_endpoint",
    "items_of",
    "padded",
    "prompt_text",
    "read_answer",
    "read_facts",
    "read_request",
    "read_second_answer",
    "read_tokens",
    "relayed_error",
    "second_body",
    "tokenize_body",
]
