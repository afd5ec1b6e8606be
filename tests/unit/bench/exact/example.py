"""Prompts, and answers as a worker would give them."""

import json
from typing import Any

from bench.exact.answers import Answer
from gateway.verify import Prompt


def prompt(number: int, kind: str = "chat", **body: Any) -> Prompt:
    asked = {"messages": [{"role": "user", "content": f"Question {number}"}], **body}
    return Prompt(number, kind, asked)


def plain(*ids: int, margin: float = 5.0) -> Answer:
    """An answer of the reference; the runner-up of each token is the next id."""
    likeliest = tuple({str(one): -0.1, str(one + 1): -0.1 - margin} for one in ids)
    return Answer(ids, likeliest, {"content": str(ids)}, "length", prompt_tokens=100)


def drafted(*ids: int, cached: int = 0, tokens: int = 100, drafts: int = 4) -> Answer:
    return Answer(
        ids, (), {"content": str(ids)}, "length",
        prompt_tokens=tokens, cached_tokens=cached, drafted=drafts, accepted=drafts // 2,
    )  # fmt: skip


def body(ids: list[int], *, likeliest: bool = False, steps: list[int] | None = None) -> str:
    """What vLLM sends for a chat completion."""
    logprobs = [
        {
            "token": f"token_id:{one}", "logprob": -0.25, "bytes": list(f"token_id:{one}".encode()),
            "top_logprobs": [
                {"token": f"token_id:{near}", "logprob": -0.25 * near / one,
                 "bytes": list(f"token_id:{near}".encode())}
                for near in (one, one + 1)
            ],
        }
        for one in ids
    ]  # fmt: skip
    found = {
        "choices": [
            {
                "message": {"role": "assistant", "content": "text"},
                "finish_reason": "length",
                "token_ids": ids,
                "logprobs": {"content": logprobs} if likeliest else None,
            }
        ],
        "usage": {
            "prompt_tokens": 50, "completion_tokens": len(ids),
            "prompt_tokens_details": {"cached_tokens": 32},
        },
    }  # fmt: skip
    if steps is not None:
        accepted = [1] * len(steps)
        counts = {"per_step_drafted": steps, "per_step_accepted": accepted}
        found["metrics"] = {"speculative_decoding": counts}
    return json.dumps(found)
