"""vLLM's own serving classes, with our hooks; tests/e2e/exactness has a whole server."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.entrypoints.openai.completion.serving import OpenAIServingCompletion
from vllm.v1.engine.input_processor import InputProcessor

from engine.worker import resumed_server
from engine.worker.resumed_server import resume_answers
from tests.unit.engine.worker.served import Served, chat, collect, complete, hooked, make_tokenizer

ASKED = {"specgate_ids": 1}
PATCHED = (
    (InputProcessor, "process_inputs"),
    (OpenAIServingChat, "chat_completion_stream_generator"),
    (OpenAIServingCompletion, "completion_stream_generator"),
)


@pytest.fixture(autouse=True)
def vllm_with_hooks() -> Iterator[None]:
    with hooked(resume_answers, PATCHED):
        yield


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return make_tokenizer()


def events_of(
    is_chat: bool, tokenizer: PreTrainedTokenizerFast, xargs: dict[str, Any]
) -> list[dict[str, Any]]:
    served = Served(tokenizer)
    fields = {"stream": True, "vllm_xargs": xargs, "stream_options": {"include_usage": True}}
    chunks = (
        chat(served.outputs(), tokenizer, **fields)
        if is_chat
        else complete(served.numbered(), tokenizer, **fields)
    )
    events: list[dict[str, Any]] = asyncio.run(collect(chunks))
    return events


@pytest.mark.parametrize("is_chat", [True, False], ids=["chat", "completion"])
def test_chunks_carry_the_ids_of_their_text(
    is_chat: bool, tokenizer: PreTrainedTokenizerFast
) -> None:
    events = events_of(is_chat, tokenizer, ASKED)

    told = [event["specgate_ids"] for event in events if "specgate_ids" in event]
    assert told == [[1], [2, 3, 4], [5, 6, 7, 8, 0]]
    assert "role" not in str([event for event in events if "specgate_ids" in event])
    assert "specgate_ids" not in events[-1]


@pytest.mark.parametrize("is_chat", [True, False], ids=["chat", "completion"])
def test_who_does_not_ask_gets_no_ids(is_chat: bool, tokenizer: PreTrainedTokenizerFast) -> None:
    assert "specgate_ids" not in str(events_of(is_chat, tokenizer, {"specgate_mode": "auto"}))


def test_requests_are_checked_after_vllm_has_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    read = SimpleNamespace(name="read")
    found = []
    monkeypatch.setattr(
        resumed_server, "check_resumed", lambda request, **limits: found.append((request, limits))
    )
    monkeypatch.setattr(InputProcessor, "process_inputs", lambda self, name: read)
    resume_answers()
    model = SimpleNamespace(get_vocab_size=lambda: 9, max_model_len=50)

    answer = InputProcessor.process_inputs(SimpleNamespace(model_config=model), "r")

    assert answer is read
    assert found == [(read, {"vocabulary": 9, "longest": 50})]


def test_a_second_call_changes_nothing() -> None:
    once = [vars(owner)[name] for owner, name in PATCHED]

    resume_answers()

    assert [vars(owner)[name] for owner, name in PATCHED] == once
