"""Greedy requests, each with a prompt of its own, that the suffix index and the head draft for."""

from random import Random

from bench.calls import chat_request

_WORDS = ("river", "stone", "green", "seven", "table", "music", "winter", "paper", "silver")
_REPEATED = 8


def greedy_request(model: str, number: int, *, tokens: int, stream: bool) -> bytes:
    """A chat completion of exactly so many tokens.

    Every other request asks to repeat a line, which the suffix index drafts from the prompt.

    Args:
        model: Its name.
        number: Of the request; the same number gives the same prompt.
        tokens: Of the answer.
        stream: Whether it is streamed.
    """
    line = " ".join(Random(number).choices(_WORDS, k=_REPEATED))
    asked = f"Repeat three times: {line}" if number % 2 else f"Write {number} facts: {line}"
    return chat_request(
        {
            "model": model,
            "messages": [{"role": "user", "content": asked}],
            "max_tokens": tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": stream,
        }
    )
