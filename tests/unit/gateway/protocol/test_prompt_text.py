from typing import Any

import msgspec
import pytest

from gateway.protocol import ENDPOINTS, read_request
from gateway.protocol.prompt_text import PromptText, prompt_text

PATHS = {endpoint.path: endpoint for endpoint in ENDPOINTS}
SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Hi."}
ASSISTANT = {"role": "assistant", "content": "Hello."}


def text_of(path: str, **body: Any) -> PromptText:
    return prompt_text(read_request(PATHS[path], msgspec.json.encode(body)))


def whole(text: PromptText) -> bytes:
    return b"".join(bytes(part) for part in text.parts)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/chat/completions", "messages"),
        ("/v1/messages", "messages"),
        ("/v1/responses", "input"),
    ],
)
def test_the_next_turn_begins_with_the_last_one(path: str, field: str) -> None:
    first = text_of(path, **{field: [SYSTEM, USER]})
    second = text_of(path, **{field: [SYSTEM, USER, ASSISTANT, USER]})

    assert whole(second).startswith(whole(first)[:-1])
    assert first.opening == second.opening
    assert (first.continues, second.continues) == (False, True)


def test_tools_and_system_prompts_come_first() -> None:
    chat = text_of("/v1/chat/completions", messages=[USER], tools=[{"type": "x"}])
    message = text_of("/v1/messages", messages=[USER], system="Be brief.", tools=[])

    assert whole(chat).startswith(b'[{"type":"x"}]')
    assert whole(message).startswith(b'[]"Be brief."')


def test_the_opening_ends_with_the_first_message_of_the_user() -> None:
    text = text_of("/v1/chat/completions", messages=[SYSTEM, USER, ASSISTANT])

    assert b"".join(map(bytes, text.opening)) == msgspec.json.encode(SYSTEM) + msgspec.json.encode(
        USER
    )


@pytest.mark.parametrize("prompt", ["a" * 3000, [1, 2, 3], ["a", "b"], 7])
def test_a_prompt_that_is_no_list_of_messages_opens_with_its_first_bytes(prompt: object) -> None:
    text = text_of("/v1/completions", prompt=prompt)

    assert b"".join(map(bytes, text.opening)) == msgspec.json.encode(prompt)[:1024]
    assert not text.continues


def test_a_body_without_a_prompt_has_no_text() -> None:
    assert text_of("/v1/completions").parts == ()
    assert text_of("/v1/embeddings", input="text").parts == ()


def test_the_callers_salt_is_told() -> None:
    assert text_of("/v1/completions", prompt="a", cache_salt="mine").salt == '"mine"'
    assert text_of("/v1/completions", prompt="a").salt == ""
